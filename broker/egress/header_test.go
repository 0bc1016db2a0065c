package egress_test

import (
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// E53, E66, E67, E75, E86, E90 and E91: headers with credentials, headers that change the meaning
// of a request, and headers of the connection are removed.
func TestCleanKeepsNoCredential(t *testing.T) {
	t.Parallel()
	gone := []string{
		"Authorization", "authorization", "AUTHORIZATION", "Proxy-Authorization", "Proxy-Connection", "Cookie", "X-Api-Key", "Api-Key", "Apikey", "Private-Token", "Job-Token", "X-Auth-Token",
		"X-Goog-Api-Key", "X-Amz-Security-Token", "X-Vault-Token", "Dd-Api-Key", "X-Shopify-Access-Token", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "Auth_orization", "X_Api_Key",
		"X-Forwarded-User", "Remote-User", "X-Remote-User", "X-Forwarded-Client-Cert", "X-Client-Cert", "Impersonate-User", "Sudo", "X-Jwt-Assertion", "X-Goog-Iap-Jwt-Assertion", "Signature", "Client-Cert",
		"Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Http2-Settings", "Expect", "Max-Forwards", "Forwarded", "Via", "X-Forwarded-For", "X-Real-Ip", "Range", "If-Range", "Accept-Encoding",
		"X-Http-Method-Override", "X-Original-Url", "x-forwarded-host", "Any_thing",
		"X-Upstream-Host", "X-Upstream-Url", "X_Upstream_Addr", "X-Proxy-Url", "X-Http-Host-Override", "X-Ms-Client-Principal", "X-Ms-Client-Principal-Id", "X-On-Behalf-Of", "On-Behalf-Of", "X-Act-As", "X-Sid", "X-Sig", "X-Hmac",
		"X-Remote-Addr", "X-Remote-Groups", "Remote-Groups", "X_Remote_Extra",
	}
	stay := []string{
		"Accept", "Accept-Language", "Content-Type", "Content-Length", "User-Agent", "If-None-Match", "If-Modified-Since", "Cache-Control", "X-Github-Api-Version", "Git-Protocol", "Idempotency-Key",
		"Grpc-Timeout", "Anthropic-Version", "Openai-Organization", "X-Amz-Target", "Prefer", "Origin", "X-Side", "X-Signal", "Sec-Websocket-Version", "Content-Encoding",
	}
	h := http.Header{}
	for _, k := range append(gone, stay...) {
		h[k] = []string{"x"}
	}
	h["Connection"] = []string{"keep-alive, TE", "close"}
	if err := egress.Clean(h); err != nil {
		t.Fatal(err)
	}
	for _, k := range gone {
		if _, there := h[k]; there {
			t.Errorf("%s leaves", k)
		}
	}
	for _, k := range stay {
		if _, there := h[k]; !there {
			t.Errorf("%s does not leave", k)
		}
	}
}

// E73: the Connection header cannot name further headers for removal.
func TestNobodyNominatesHeaders(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"Authorization", "close, authorization", "keep-alive,X-Api-Key", "upgrade", "\tauthorization ", "Host", "close;x"} {
		if err := egress.Clean(http.Header{"Connection": {line}}); reason(err) != stricturl.BadHeader {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// E75: this is the only header of a WebSocket that browsers can set, so that servers accept
// credentials in it.
//
//ebb:invariant I6 Subprotocols that carry a credential are removed from a WebSocket handshake
func TestSubprotocolsThatAreCredentials(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"v5.channel.k8s.io, v4.channel.k8s.io":                                             "v5.channel.k8s.io, v4.channel.k8s.io",
		"realtime, openai-insecure-api-key.theirs, openai-beta.realtime-v1":                "realtime, openai-beta.realtime-v1",
		"base64url.bearer.authorization.k8s.io.dGhlaXJz,,base64.binary.k8s.io":             "base64.binary.k8s.io",
		"graphql-ws,\theader-eyJob3N0IjoiYS5leGFtcGxlLmNvbSIsIngtYXBpLWtleSI6InRoZWlycyJ9": "graphql-ws",
		"Access-Token.theirs": "",
		"chat, access_token, ghp_0123456789abcdefghij, superchat": "chat, superchat",
		"x, 0123456789abcdef0123456789abcdef":                     "x",
		"access_token, ,abcdefghijklmnopqrst, superchat":          "superchat",
	} {
		h := http.Header{"Sec-Websocket-Protocol": {line}}
		if err := egress.Clean(h); err != nil || h.Get("Sec-Websocket-Protocol") != want || want == "" && len(h) > 0 {
			t.Errorf("%q leaves as %v, %v", line, h, err)
		}
	}
}
