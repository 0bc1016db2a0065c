package egress

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// Prefix begins every placeholder, which a sandbox holds in place of a credential. A placeholder
// names a lease and authenticates nothing: the caller is known by the endpoint that the request
// arrived at.
const Prefix = provider.PlaceholderPrefix

// Reasons for refusals because of a placeholder.
const (
	NoPlaceholder    stricturl.Reason = "no_placeholder"    // the request has no placeholder
	StrayPlaceholder stricturl.Reason = "stray_placeholder" // it has one where no credential belongs, or more than one
	ForeignQuery     stricturl.Reason = "foreign_credential"
)

// placeholderOf returns the lease id of the one placeholder in a request. A placeholder may stand
// where a credential belongs: as the value of a header, alone or after a scheme, as the user or
// password of Basic, or as the value of a parameter.
//
// A request with a placeholder anywhere else is refused, because the upstream must not see it. A
// request with another credential in its query is refused as well: headers with credentials are
// removed (Clean), but a query is forwarded unchanged.
func placeholderOf(r *http.Request, query url.Values) (leaseID string, err error) {
	var found []string
	for name, values := range r.Header {
		if strings.Contains(strings.ToLower(name), Prefix) {
			return "", deny(StrayPlaceholder, nil)
		}
		for _, v := range values {
			ids, stray := inHeader(v)
			if stray || len(ids) > 0 && !carriesCredential(name) {
				return "", deny(StrayPlaceholder, nil)
			}
			found = append(found, ids...)
		}
	}
	for name, values := range query {
		for _, v := range values {
			id, is := strings.CutPrefix(v, Prefix)
			switch {
			case is && isCredentialParameter(name):
				found = append(found, id)
			case holds(name), holds(v):
				return "", deny(StrayPlaceholder, nil)
			case isCredentialParameter(name):
				return "", deny(ForeignQuery, nil)
			}
		}
	}
	if holds(r.URL.Path) || holds(r.Host) {
		return "", deny(StrayPlaceholder, nil)
	}
	slices.Sort(found)
	switch found = slices.Compact(found); len(found) {
	case 0:
		return "", deny(NoPlaceholder, nil)
	case 1:
		if found[0] == "" { // a placeholder without an id is not the same as no placeholder
			return "", deny(NoCredential, nil)
		}
		return found[0], nil
	}
	return "", deny(StrayPlaceholder, nil)
}

// inHeader returns the lease ids in the value of a header. stray reports a placeholder that is not
// the whole credential there.
func inHeader(v string) (ids []string, stray bool) {
	scheme, rest, two := strings.Cut(v, " ")
	if id, is := strings.CutPrefix(v, Prefix); is {
		return []string{id}, holds(id) || strings.ContainsAny(id, " \t,;")
	}
	if !two {
		return nil, holds(v)
	}
	rest = strings.TrimLeft(rest, " ")
	if id, is := strings.CutPrefix(rest, Prefix); is {
		return []string{id}, holds(id) || holds(scheme) || strings.ContainsAny(id, " \t,;")
	}
	if scheme == awsScheme && holds(v) {
		id, is := awsKey(rest)
		return []string{id}, !is
	}
	if strings.EqualFold(scheme, "Basic") {
		if raw, err := base64.StdEncoding.DecodeString(rest); err == nil {
			user, password, _ := strings.Cut(string(raw), ":")
			u, isUser := strings.CutPrefix(user, Prefix)
			p, isPassword := strings.CutPrefix(password, Prefix)
			switch {
			case isUser && isPassword:
				return []string{u, p}, u != p
			case isUser:
				return []string{u}, holds(password)
			case isPassword:
				return []string{p}, holds(user)
			}
			return nil, holds(string(raw))
		}
	}
	return nil, holds(v)
}

// awsScheme is the scheme of AWS Signature Version 4. A client sends a signature instead of a
// credential: the placeholder is the access key id in it.
const awsScheme = "AWS4-HMAC-SHA256"

// awsKey returns the lease id in the text after the scheme: "Credential=<placeholder>/<date>/...".
// is is false if the text holds a further placeholder.
func awsKey(rest string) (id string, is bool) {
	rest, is = strings.CutPrefix(rest, "Credential="+Prefix)
	if !is {
		return "", false
	}
	id, rest, is = strings.Cut(rest, "/")
	return id, is && !holds(id) && !holds(rest) && !strings.ContainsAny(id, " \t,;=")
}

// awsClaim returns the Authorization header of a request that is signed with a placeholder, and ""
// for other requests. The provider that signs the request again compares it with the region and
// service that the client signed for.
func awsClaim(h http.Header) string {
	if lines := h["Authorization"]; len(lines) == 1 && strings.HasPrefix(lines[0], awsScheme+" ") && holds(lines[0]) {
		return lines[0]
	}
	return ""
}

func holds(s string) bool { return strings.Contains(strings.ToLower(s), Prefix) }

// strayIn reports whether any header holds a placeholder.
func strayIn(h http.Header) bool {
	for _, values := range h {
		if slices.ContainsFunc(values, holds) {
			return true
		}
	}
	return false
}

// queryWords are the last words of parameter names from which servers take a credential, with
// hyphens and run together.
var queryWords = []string{
	"token", "auth", "authorization", "secret", "password", "passwd", "pwd", "credential", "credentials", "signature", "sig", "jwt", "assertion", "bearer", "pat",
	"session", "session-id", "sid", "api-key", "access-key", "access-key-id", "secret-key", "private-key", "auth-key", "subscription-key",
	"apikey", "accesskey", "secretkey", "authkey", "accesstoken", "apitoken", "authtoken", "idtoken", "sessiontoken", "sessionid", "jsessionid", "phpsessid",
}

// paging are names of parameters that continue a list, and are not credentials.
var paging = []string{"continuation-token", "page-token", "next-page-token", "next-token", "sync-token", "cursor-token"}

// isCredentialParameter reports whether servers take a credential from a parameter of this name, in
// any spelling: access_token, accessToken, AccessToken, user[token].
func isCredentialParameter(name string) bool {
	plain, spelled := strings.ToLower(name), words(name)
	if slices.Contains(paging, spelled) {
		return false
	}
	// Many names that end in "Key" are not credentials: sortKey, issueKey.
	if plain == "key" || strings.HasSuffix(plain, "_key") || strings.HasSuffix(plain, "-key") || strings.HasPrefix(plain, "x-amz-") {
		return true
	}
	together := strings.ReplaceAll(spelled, "-", "")
	return slices.ContainsFunc(queryWords, func(w string) bool {
		return spelled == w || strings.HasSuffix(spelled, "-"+w) || together == w
	})
}

// words returns the words of a name in lower case, with hyphens between them.
func words(name string) string {
	var b strings.Builder
	all := []rune(name)
	for i, c := range all {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			c = '-'
		} else if unicode.IsUpper(c) && i > 0 && (!unicode.IsUpper(all[i-1]) || i+1 < len(all) && unicode.IsLower(all[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.Join(strings.FieldsFunc(b.String(), func(c rune) bool { return c == '-' }), "-")
}
