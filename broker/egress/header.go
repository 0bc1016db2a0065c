package egress

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

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
			continue // gRPC does not go without it, and it asks for what is read like headers
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

// droppedHeaders are response headers that a sandbox must not get: they belong to the session of
// the credential at the upstream, or lead clients around the proxy.
var droppedHeaders = []string{"Set-Cookie", "Set-Cookie2", "Refresh", "Alt-Svc", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info", "Clear-Site-Data"}

// clean removes droppedHeaders from the headers of a response, and secrets from the others.
func (s *outbound) clean(h http.Header) {
	for _, name := range droppedHeaders {
		delete(h, name)
	}
	if s.named != nil {
		for _, values := range h {
			for i, v := range values {
				text, n := s.named.Text(v)
				values[i] = text
				s.redacted.Add(int64(n))
			}
		}
	}
	if s.redactor != nil {
		s.cleanOf(h, s.redactor)
	}
	for _, x := range s.hidden {
		s.cleanOf(h, x)
	}
}

// cleanOf replaces the secrets of one redactor by marks, and removes headers whose names hold one.
func (s *outbound) cleanOf(h http.Header, x *redactor) {
	for name, values := range h {
		for i, v := range values {
			text, n := x.Text(v)
			values[i] = text
			s.redacted.Add(int64(n))
		}
		if x.InName(name) {
			delete(h, name)
			s.redacted.Add(1)
		}
	}
}
