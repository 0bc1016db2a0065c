package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web"
)

// H76, DNS rebinding: a page whose host name was changed to resolve to
// 127.0.0.1 has the same origin as a server there. An ebb on plain http
// therefore accepts only loopback host names. With TLS the certificate has that
// effect.
func TestHostOfLoopback(t *testing.T) {
	t.Parallel()
	for public, hosts := range map[string]map[string]int{
		"http://127.0.0.1:8420": {
			"127.0.0.1:8420": 200, "localhost:8420": 200, "LOCALHOST": 200, "[::1]:8420": 200, "127.0.0.2": 200,
			"ebb.localhost:8420": 421, "evil.localhost": 421, "localhost.": 421,
			"evil.test": 421, "evil.test:8420": 421, "127.0.0.1.evil.test": 421, "localhost.evil.test:8420": 421, "192.0.2.1": 421, "": 421, "127.0.0.1@evil.test": 421,
		},
		"https://ebb.test": {"ebb.test": 200, "10.0.0.1:8443": 200}, // probes and port forwards
	} {
		m := newMux(t, web.Config{PublicURL: public})
		reached := 0
		m.AddRoot(http.MethodGet, "/metrics", func(c echo.Context) error { reached++; return c.NoContent(http.StatusOK) })
		for host, want := range hosts {
			before := reached
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Host = host
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			if w.Code != want || (reached > before) != (want == http.StatusOK) {
				t.Errorf("%s asked as %q: %d, want %d", public, host, w.Code, want)
			}
		}
	}
}
