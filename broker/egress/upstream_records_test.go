package egress_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// newRecordsBed starts a bed whose upstream writes TLS records itself, after it has read the head of
// a request.
func newRecordsBed(t *testing.T, do func(*ratchet)) *bed {
	t.Helper()
	var keys attesttest.Log
	return newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.(*tls.Conn).NetConn().Close() }()
		all := keys.String()
		r, err := newRatchet(c.(*tls.Conn), all[strings.LastIndex(all, "SERVER_HANDSHAKE"):], "SERVER")
		if err != nil {
			t.Error(err)
			return
		}
		do(r)
	}, func(s *httptest.Server) {
		s.EnableHTTP2 = false
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, KeyLogWriter: &keys}
	})
}

// The alert no_application_protocol in place of a response does not make ebb send the request again.
func TestLateAlertOfAnUpstream(t *testing.T) {
	t.Parallel()
	b := newRecordsBed(t, func(r *ratchet) { _ = r.write(21, []byte{2, 120}) })
	x := b.sandbox(t)
	res, body := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:write"))
	if got := b.arrived(); res.StatusCode != http.StatusBadGateway || len(got) != 1 {
		t.Errorf("%s %q after %d requests", res.Status, body, len(got))
	}
}
