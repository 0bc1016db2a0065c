package egress

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
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

// credentialWords are words in the names of headers and query parameters that hold a credential or
// the identity of the caller. If a request has two of these, the upstream uses the one that it
// looks for first. A header added by the sandbox could so move the request, with its data, to
// another account.
var credentialWords = []string{"auth", "token", "secret", "key", "password", "passwd", "cookie", "session", "credential", "signature", "jwt", "bearer", "assertion", "cert", "user", "identity", "impersonat", "sudo", "principal", "on-behalf-of", "act-as"}

// callers and callerPrefixes are further names, and beginnings of names, of credentials and
// identities, without any of these words.
var (
	callers        = []string{"x-sid", "x-sig", "x-hmac"}
	callerPrefixes = []string{"x-remote-", "remote-", "x-ms-client-principal"}
)

// harmless are names with one of these words that hold neither a credential nor an identity.
var harmless = []string{"user-agent", "idempotency-key", "x-idempotency-key", "sec-websocket-key", "upgrade-insecure-requests", "keyword", "keywords", "per-user", "author", "authors"}

// hopHeaders are headers of one connection (RFC 9110 section 7.6.1), and headers by which proxies
// report the client: the sandbox must not set those, and ebb sends none. Range and Accept-Encoding
// are removed so that the response can be searched in order and uncompressed.
var hopHeaders = []string{
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect", "max-forwards",
	"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "x-cluster-client-ip", "range", "if-range", "accept-encoding",
}

// secondResource are headers that name a second resource to read or write, which no path rule
// covers. Without the header the request would have another meaning, so it is refused.
var secondResource = []string{"destination", "copy-source", "x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source", "x-copy-from", "x-ms-rename-source"}

// carriesCredential reports whether a header or parameter of this name may hold a credential or an
// identity.
func carriesCredential(name string) bool {
	name = stricturl.Fold(name)
	begins := func(p string) bool { return strings.HasPrefix(name, p) }
	holds := func(w string) bool { return strings.Contains(name, w) }
	return !slices.Contains(harmless, name) && (slices.ContainsFunc(credentialWords, holds) || slices.Contains(callers, name) || slices.ContainsFunc(callerPrefixes, begins))
}

// maxFields is how many header fields a request may have, including fields that Clean removes.
// Other servers have limits from 100 fields on. Go limits only the bytes, and 64 KiB hold 10,000
// short fields.
const maxFields = 200

// Clean removes headers that must not reach the upstream: credentials and identities, headers of
// one connection, headers that override the request, and subprotocols that are credentials. It also
// removes names with an underscore, which some servers read as a hyphen.
//
// It returns an error for more than maxFields fields, for a header that names a second resource,
// and for a Connection header that names further headers. A server would remove the headers that
// Connection names, and those may be the ones that ebb adds.
func Clean(h http.Header) error {
	fields := 0
	for _, lines := range h {
		fields += len(lines)
	}
	if fields > maxFields {
		return &stricturl.Error{Reason: stricturl.BadHeader, Why: fmt.Sprintf("it has more than %d header fields", maxFields)}
	}
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if o := strings.ToLower(textproto.TrimString(option)); o != "" && o != "close" && o != "keep-alive" && o != "te" {
				return &stricturl.Error{Reason: stricturl.BadHeader, Why: "its Connection header names another header, or an upgrade that is not a WebSocket handshake"}
			}
		}
	}
	for name := range h {
		folded := stricturl.Fold(name)
		if slices.Contains(secondResource, folded) {
			return &stricturl.Error{Reason: stricturl.BadHeader, Why: "one of its headers names a second resource"}
		}
		if name == "Te" && slices.Equal(h[name], []string{"trailers"}) { // gRPC requires it, and trailers are searched as headers are
			continue // no check applies to it
		}
		if strings.Contains(name, "_") || slices.Contains(hopHeaders, folded) || strings.HasPrefix(folded, "x-forwarded-") || strings.HasPrefix(folded, "proxy-") ||
			stricturl.Overrides(name) || carriesCredential(name) {
			delete(h, name)
		}
	}
	names := subprotocols(h["Sec-Websocket-Protocol"])
	if h.Del("Sec-Websocket-Protocol"); len(names) > 0 {
		h.Set("Sec-Websocket-Protocol", strings.Join(names, ", "))
	}
	return nil
}

// dropDigests removes the headers that describe a body which is about to change.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"} {
		h.Del(name)
	}
}

func identity(codings []string) bool {
	return !slices.ContainsFunc(codings, func(c string) bool { return c != "" && !strings.EqualFold(c, "identity") })
}

// maxSubprotocol is the maximum length of the name of a subprotocol, in bytes. The registered names
// are shorter, and most tokens are longer.
const maxSubprotocol = 31

// subprotocols returns the subprotocols of a handshake without credentials. Browsers can set no
// header, so that servers accept credentials in place of a name: openai-insecure-api-key.<key>,
// base64url.bearer.authorization.k8s.io.<token>, header-<base64 of headers>, or the name after one
// that announces it: access_token, <token>.
func subprotocols(lines []string) (names []string) {
	said := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.Trim(name, " \t"); name == "" {
				continue // servers skip empty names, too (RFC 9110 section 5.6.1), so that an announcement still counts
			}
			credential := carriesCredential(name)
			if len(name) <= maxSubprotocol && !credential && !said {
				names = append(names, name)
			}
			said = credential && !strings.Contains(name, ".")
		}
	}
	return names
}
