package github

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

var fuzzedAsk = ask{owner: "acme", repositories: []string{"acme/web"}, permissions: map[string]string{"contents": "read"}, words: []string{"acme/web"}}

// FuzzMinted parses arbitrary responses to a mint. A token that the parser returns fits into a
// header, and a response that passes the comparison has exactly the requested permissions.
func FuzzMinted(f *testing.F) {
	for _, seed := range []string{
		`{"token":"ghs_x","expires_at":"2027-01-15T09:00:00Z","permissions":{"contents":"read","metadata":"read"},"repository_selection":"selected","repositories":[{"id":1,"full_name":"acme/web"}]}`,
		`{"token":"ghs_1_a.b.c","permissions":null}`, `{"token":"a","token":"b"}`, `{"Token":"a"}`, `{"token":"a\r\nX: y"}`, `[]`, ``, `{"token":"x","permissions":[],"repositories":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMinted(b)
		if err != nil {
			return
		}
		if !acceptable(m.Token) || strings.ContainsAny(m.Token, " \r\n:\"") {
			t.Fatalf("%q passes for a token", m.Token)
		}
		at := time.Unix(1_800_000_000, 0)
		until, dies, late := m.lives(answer{at: at, header: http.Header{}})
		if late == nil && (!until.After(at) || dies.Before(until) || dies.Sub(at) > lifetime+room) {
			t.Fatalf("lives until %s and dies %s", until, dies)
		}
		if m.differs(fuzzedAsk, map[string]int64{"acme/web": 1}) != nil {
			return
		}
		extra := len(m.Permissions)
		if m.Permissions[metadata] == readLevel {
			extra--
		}
		if m.Permissions["contents"] != "read" || extra != 1 || len(m.Repositories) != 1 || m.Repositories[0].ID != 1 || m.Repositories[0].Name != "acme/web" || m.Selection != "selected" {
			t.Fatalf("%s passes for the ask", b)
		}
	})
}

// FuzzRefusal parses arbitrary refusals. The wait is bounded, and the logged message is short
// and printable.
func FuzzRefusal(f *testing.F) {
	f.Add(403, "60", "0", "1800000060", "Tue, 15 Jan 2027 08:00:00 GMT", []byte(`{"message":"You have exceeded a secondary rate limit"}`))
	f.Add(429, "", "", "", "", []byte("\xff"))
	f.Add(403, "-1", "0", "-99999999999999999999", "x", []byte(`{"message":"\u0000\u202e"}`))
	f.Add(403, "Tue, 15 Jan 2030 08:00:00 GMT", "0", "9223372036854775807", "", []byte(`{"message":1}`))
	f.Fuzz(func(t *testing.T, status int, retry, remaining, reset, date string, body []byte) {
		a := answer{status: status, body: body, at: time.Unix(1_800_000_000, 0), header: http.Header{}}
		for name, v := range map[string]string{"Retry-After": retry, "X-Ratelimit-Remaining": remaining, "X-Ratelimit-Reset": reset, "Date": date} {
			a.header[name] = []string{v}
		}
		text := a.message()
		if len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			t.Fatalf("%q goes to the log", text)
		}
		if err := a.busy(); err != nil {
			if busy := err.(*provider.BusyError); busy.After < time.Second || busy.After > time.Hour {
				t.Fatalf("waits %s", busy.After)
			}
		}
	})
}
