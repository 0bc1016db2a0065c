package egress

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// Prefix begins every placeholder: what a sandbox holds in place of a credential. It
// names a lease and proves nothing: who uses it is known by where the request came in.
const Prefix = provider.PlaceholderPrefix

// Reasons of what is wrong with a placeholder.
const (
	NoPlaceholder    exact.Reason = "no_placeholder"    // the request holds none where one belongs
	StrayPlaceholder exact.Reason = "stray_placeholder" // it holds one elsewhere, or more than one
	ForeignQuery     exact.Reason = "foreign_credential"
)

// placeholderOf finds the one placeholder of a request where a credential belongs: the
// value of a header, bare or behind a scheme, the user or the password of Basic, or
// the value of a parameter. It returns the id of its lease.
//
// A placeholder anywhere else is not for the upstream to see: such a request does not
// leave. Nor does one with another credential in its query: headers with one are
// removed (Clean), but a query is forwarded as it is.
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
		if found[0] == "" { // one that names nothing is no request without one
			return "", deny(NoCredential, nil)
		}
		return found[0], nil
	}
	return "", deny(StrayPlaceholder, nil)
}

// inHeader are the ids in a header's value. stray: there is a placeholder in it that is
// not all of what a credential would be there.
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

// awsScheme is that of AWS Signature Version 4. What is sent is no credential but a signature
// made with one: the placeholder is the id of the key that it names.
const awsScheme = "AWS4-HMAC-SHA256"

// awsKey is the id in what follows the scheme: "Credential=<placeholder>/<date>/...", of
// which nothing else is a placeholder.
func awsKey(rest string) (id string, is bool) {
	rest, is = strings.CutPrefix(rest, "Credential="+Prefix)
	if !is {
		return "", false
	}
	id, rest, is = strings.Cut(rest, "/")
	return id, is && !holds(id) && !holds(rest) && !strings.ContainsAny(id, " \t,;=")
}

// awsClaim is the line of a request that is signed so with a placeholder: whoever signs it
// anew compares what the client believes to talk to.
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
