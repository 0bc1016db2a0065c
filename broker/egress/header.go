package egress

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"ebb/broker/exact"
)

// credentialWords are parts of the names of headers and query parameters that carry a
// credential or say who calls. A request with two of them is whoever the upstream
// looks for first: what a sandbox adds of its own would take the request to an account
// of somebody else's, with all that it carries.
var credentialWords = []string{"auth", "token", "secret", "key", "password", "passwd", "cookie", "session", "credential", "signature", "jwt", "bearer", "assertion", "cert", "user", "identity", "impersonat", "sudo", "principal", "on-behalf-of", "act-as"}

// callers are names of credentials, or of who calls, that hold none of the words, and beginnings of such names.
var (
	callers        = []string{"x-sid", "x-sig", "x-hmac"}
	callerPrefixes = []string{"x-remote-", "remote-", "x-ms-client-principal"}
)

// harmless are names that hold one of the words, and nothing of the sort.
var harmless = []string{"user-agent", "idempotency-key", "x-idempotency-key", "sec-websocket-key", "upgrade-insecure-requests", "keyword", "keywords", "per-user", "author", "authors"}

// hops are headers of one connection (RFC 9110 section 7.6.1), and those that proxies
// leave for the next: where a request comes from is nobody's to say but ours, which says
// nothing. Ranges and codings go, so that what comes back can be read in order.
var hops = []string{
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect", "max-forwards",
	"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "x-cluster-client-ip", "range", "if-range", "accept-encoding",
}

// copies are headers that name a second resource, which no rule for a path covers: what is
// read there, or written. Without one the request would be another, so that it stays.
var copies = []string{"destination", "copy-source", "x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source", "x-copy-from", "x-ms-rename-source"}

// carriesCredential reports whether a header or parameter of this name may carry one.
func carriesCredential(name string) bool {
	name = exact.Fold(name)
	begins := func(p string) bool { return strings.HasPrefix(name, p) }
	holds := func(w string) bool { return strings.Contains(name, w) }
	return !slices.Contains(harmless, name) && (slices.ContainsFunc(credentialWords, holds) || slices.Contains(callers, name) || slices.ContainsFunc(callerPrefixes, begins))
}

// maxFields is how many fields the headers of a request have at most, whatever leaves of them. Servers
// have bounds from 100 on, where they have one; Go has none but for bytes, which 64 KiB of short ones
// are 10,000 of.
const maxFields = 200

// Clean removes from the headers of a request what does not leave: credentials, what
// belongs to one connection, what makes it another request, names with an underscore, which
// some servers read as a hyphen, and subprotocols that are credentials. That a client
// nominates more headers for removal (Connection) is refused: what a server removes there is
// what we add. So is one that names a second resource, and one with too many fields.
func Clean(h http.Header) error {
	fields := 0
	for _, lines := range h {
		fields += len(lines)
	}
	if fields > maxFields {
		return deny(exact.BadHeader, fmt.Errorf("%d fields are more than %d", fields, maxFields))
	}
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if o := strings.ToLower(textproto.TrimString(option)); o != "" && o != "close" && o != "keep-alive" && o != "te" {
				return deny(exact.BadHeader, nil)
			}
		}
	}
	for name := range h {
		folded := exact.Fold(name)
		if slices.Contains(copies, folded) {
			return deny(exact.BadHeader, nil)
		}
		if name == "Te" && slices.Equal(h[name], []string{"trailers"}) {
			continue // gRPC does not go without it, and it asks for what is read like headers
		}
		if strings.Contains(name, "_") || slices.Contains(hops, folded) || strings.HasPrefix(folded, "x-forwarded-") || strings.HasPrefix(folded, "proxy-") ||
			exact.Overrides(name) || carriesCredential(name) {
			delete(h, name)
		}
	}
	names := subprotocols(h["Sec-Websocket-Protocol"])
	if h.Del("Sec-Websocket-Protocol"); len(names) > 0 {
		h.Set("Sec-Websocket-Protocol", strings.Join(names, ", "))
	}
	return nil
}
