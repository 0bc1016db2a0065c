package web_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web"
)

// TestOwnName: the console has its own host name on loopback only, in the
// spelling of browsers.
func TestOwnName(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	own := regexp.MustCompile(`^http://ebb-[a-z2-7]{16}\.localhost(:8420)?(/base)?$`)
	for public, tail := range map[string]string{
		"http://127.0.0.1:8420": ".localhost:8420", "http://localhost:8420/base": ".localhost:8420/base", "http://[::1]:8420": ".localhost:8420", "http://localhost": ".localhost", "http://127.0.0.1:80": ".localhost",
	} {
		got, err := web.OwnName(public, key)
		if err != nil || !own.MatchString(got) || !strings.HasSuffix(got, tail) {
			t.Errorf("%s: %q, %v", public, got, err)
		}
		if again, _ := web.OwnName(public, key); again != got {
			t.Errorf("%s: %q, then %q", public, got, again)
		}
		if other, _ := web.OwnName(public, bytes.Repeat([]byte{8}, 32)); other == got {
			t.Errorf("%s: another key makes the same name", public)
		}
		if _, err := web.New(web.Config{PublicURL: public, PagesURL: got}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	for _, same := range []string{"https://ebb.test", "https://localhost:8420", "https://127.0.0.1:8420", "http://127.0.0.2:8420"} {
		if got, err := web.OwnName(same, key); err != nil || got != same {
			t.Errorf("%s: %q, %v", same, got, err)
		}
	}
	for _, bad := range []string{"", "http://ebb.test", "http://127.0.0.1:8420/"} {
		if got, err := web.OwnName(bad, key); err == nil {
			t.Errorf("%s: %q", bad, got)
		}
	}
	if got, err := web.OwnName("http://127.0.0.1:8420", nil); err == nil {
		t.Errorf("no key: %q", got)
	}
	for _, bad := range []string{"http://ebb.test", "https://x.localhost:8420", "http://x.localhost:8420/other", "http://x.localhost:8420/", "http://X.localhost:8420", "http://u@x.localhost:8420", "http://localhost.evil.test", "http://.evil.test"} {
		if _, err := web.New(web.Config{PublicURL: "http://127.0.0.1:8420", PagesURL: bad}); err == nil {
			t.Errorf("%s is taken for pages", bad)
		}
	}
	if _, err := web.New(web.Config{PublicURL: "https://ebb.test", PagesURL: "http://x.localhost"}); err == nil {
		t.Error("pages of an https server are at http")
	}
}

// TestNamesApart: API routes are not in the origin of the console, and of all
// names under localhost one is served.
func TestNamesApart(t *testing.T) {
	t.Parallel()
	const own = "ebb-aaaabbbbccccdddd.localhost:8420"
	m := newMux(t, web.Config{PublicURL: "http://127.0.0.1:8420", PagesURL: "http://" + own})
	m.Add(http.MethodGet, "/v1/x", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	m.AddRoot(http.MethodGet, "/metrics", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	at := map[string]bool{}
	m.AddPage(http.MethodGet, "/queue", func(c echo.Context) error {
		at[c.Request().Host] = m.AtPages(c.Request())
		return c.NoContent(http.StatusOK)
	})
	for host, want := range map[string][2]int{ // for programs, for people
		"127.0.0.1:8420": {200, 200}, "localhost:8420": {200, 200}, own: {421, 200},
		"ebb-aaaabbbbccccdddd.localhost": {421, 421}, "ebb-aaaabbbbccccdddd.localhost:9000": {421, 421}, "ebb-aaaabbbbccccdddd.localhost.:8420": {421, 421}, strings.ToUpper(own): {421, 421},
		"evil." + own: {421, 421}, "ebb-.localhost:8420": {421, 421}, "ebb.localhost:8420": {421, 421}, "evil.localhost:8420": {421, 421}, "x@" + own: {421, 421},
	} {
		for i, path := range []string{"/v1/x", "/queue"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			if m.ServeHTTP(w, r); w.Code != want[i] {
				t.Errorf("%s at %q: %d, want %d", path, host, w.Code, want[i])
			}
			if strings.Contains(w.Body.String(), "aaaabbbb") && host != own {
				t.Errorf("%s at %q tells the name: %s", path, host, w.Body)
			}
		}
	}
	for host, is := range at {
		if is != (host == own) {
			t.Errorf("AtPages of %q is %v", host, is)
		}
	}
}
