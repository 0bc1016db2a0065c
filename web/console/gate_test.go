package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestGate: a form is accepted only when a person sent it from a page of this
// console.
func TestGate(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			if r.Header.Del(name); value != "" {
				r.Header.Set(name, value)
			}
		}
	}
	b := h.as(brokertest.Approver)
	page := b.get("/queue")
	for name, change := range map[string]func(*http.Request){
		"cross-site":          header("Sec-Fetch-Site", "cross-site"),
		"same-site":           header("Sec-Fetch-Site", "same-site"),
		"none":                header("Sec-Fetch-Site", "none"),
		"no site":             header("Sec-Fetch-Site", ""),
		"fetch":               header("Sec-Fetch-Mode", "cors"),
		"no-cors":             header("Sec-Fetch-Mode", "no-cors"),
		"iframe":              header("Sec-Fetch-Dest", "iframe"),
		"script":              header("Sec-Fetch-Dest", "empty"),
		"another origin":      header("Origin", "https://evil.test"),
		"null origin":         header("Origin", "null"),
		"no origin":           header("Origin", ""),
		"origin with port":    header("Origin", h.Issuer+":443"),
		"two origins":         func(r *http.Request) { r.Header.Add("Origin", h.Issuer) },
		"only the Lax cookie": func(r *http.Request) { dropCookie(r, "__Host-ebb-act") },
		"a cookie twice":      func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "__Host-ebb-act", Value: "x"}) },
	} {
		if a := b.do(http.MethodPost, "/signout", b.fill(page, "/signout", nil), change); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	for _, kind := range []string{"text/plain", "application/json", "multipart/form-data; boundary=x", ""} {
		if a := b.do(http.MethodPost, "/signout", b.fill(page, "/signout", nil), header("Content-Type", kind)); a.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d", kind, a.StatusCode)
		}
	}
	if a := b.do(http.MethodGet, "/signout", nil, nil); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", a.StatusCode)
	}
	// The form of another person, and for another path.
	bob := h.as(brokertest.Second)
	for name, form := range map[string]url.Values{
		"none":             {},
		"another person's": bob.fill(bob.get("/queue"), "/signout", nil),
		"twice":            {"nonce": {"a", "b"}},
		"garbage":          {"nonce": {"\x00.\xff"}},
	} {
		if a := b.do(http.MethodPost, "/signout", form, nil); a.StatusCode != http.StatusConflict && a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	b.get("/queue").is(t, http.StatusOK)
}

func dropCookie(r *http.Request, name string) {
	all := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range all {
		if c.Name != name {
			r.AddCookie(c)
		}
	}
}
