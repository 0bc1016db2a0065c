package egress_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Credentials of the sandbox itself, and other credentials that a response creates, are in no
// transcript either.
//
//ebb:invariant I8 A transcript contains no value that has the name or the form of another credential
//ebb:invariant I8 A transcript contains no value of a JSON member with the name of a credential, however the name is escaped
//ebb:invariant I8 A transcript contains no value of a query, form or URL parameter with the name of a credential
func TestTranscriptHoldsNoOtherCredential(t *testing.T) {
	t.Parallel()
	const other = "oTh3r-cr3dential-0123456789"
	const jose = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Header().Set("Set-Cookie", "s="+other)
		w.Header().Set("Location", "https://x.example/cb?a=1&user%5Btoken%5D="+other)
		w.Header().Set("X-Note", `<https://x.example/?page=2>; rel="next", <https://x.example/?key=`+other+`>; rel="last"`)
		_, _ = w.Write(text)
	})
	s := b.written(t, bulk, everything())
	for media, bodies := range map[string][]string{
		"application/json": {
			`{"password":"` + other + `"}`, `{"a":{"db_password" : "` + other + `"}}`, `{"pass\u0077ord":"` + other + `","b":1}`, `{"secrets":1,"client_secret":["` + other + `"]}`,
			`{"apiKey":"` + other + `"`, `{"x":"` + jose + `"}`, `{"note":"{\"access_token\":\"` + other + `\"}"}`, `{"k":"-----BEGIN EC PRIVATE KEY-----\n` + other, `[{"token":"` + strings.Repeat("o", 5<<10) + other + `"}]`,
			`{"url":"https://ann:` + other + `@x.example/"}`, `{"u":"https://x.example/?a=1\u0026key=` + other + `"}`, `{"x":"\ud800","passphrase":"` + other + `"}`, "\ufeff" + `{"device_code":"` + other + `"}`,
			`{"body":"{\"db_password\":\"` + other + `\"}"}`,
		},
		"application/json-seq":              {"\x1e" + `{"db_pass\u0077ord":"` + other + `"}`},
		"text/event-stream":                 {`data: {"db_password":"` + other + `"}`},
		"application/yaml":                  {"db:\n  password: " + other},
		"application/toml":                  {`api_key = "` + other + `"`},
		"application/x-www-form-urlencoded": {"a=1&password=" + other, "user%5Bpassword%5D=" + other, "client_secret=" + other + "&b=2", "%zz=" + other},
		"text/plain":                        {"DB_PASSWORD=" + other, "https://ann:" + other + "@x.example/", "curl -H 'Authorization: Bearer " + other + "'", "see https://x.example/?access_token=" + other, "-----BEGIN PRIVATE KEY-----\n" + other + "\n-----END PRIVATE KEY-----", jose},
		"application/xml":                   {"<a><password>" + other + "</password></a>"},
	} {
		for _, body := range bodies {
			x := b.sandbox(t)
			p := x.placeholder(t, "stripe:charges:write")
			if res, got := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", body, "Authorization", "Bearer "+p, "Content-Type", media, "X-Api-Key", other, "Cookie", "s="+other); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status, got)
			}
			raw, err := json.Marshal(only(t, s, x.s.Task.ID))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), other) || strings.Contains(string(raw), jose) {
				t.Errorf("%s %q: written is %s", media, body, raw)
			}
		}
	}
}

// TestTranscriptIsNotHidden: for every value that a sandbox sends, the transcript contains the text
// after it, or states that text was left out.
//
//ebb:invariant I8 No value that a sandbox sends hides the text after it: the transcript contains that text or states that text was left out
//ebb:invariant I8 An invalid UTF-8 byte does not cause the body to be withheld from the transcript
func TestTranscriptIsNotHidden(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	s := b.written(t, bulk, everything())
	const behind = "amount=100000"
	json := func(first string) string { return `{"x":` + first + `,"to":"` + behind + `"}` }
	for _, c := range []struct {
		media, body string
		shown       bool // false = left out
	}{
		{"application/json", json(`"\ud800"`), true},
		{"application/json", "\ufeff" + json("1"), true},
		{"application/json", json("\"\xff\""), true},
		{"application/json; charset=iso-8859-1", json("\"\xe4\""), true},
		{"text/plain", "\xff\xc0\xaf" + behind, true},
		{"text/plain", strings.Repeat("\xff", 1400) + behind, false},
		{"application/json", json(`"<token>"`), true},
		{"application/json", json(`"'token':'"`), true},
		{"application/json", json(`"\"token\":{"`), true},
		{"application/json", json(`"?token="`), true},
		{"application/json", json(`"-----BEGIN PRIVATE KEY-----"`), true},
		{"application/json", `{"x":1,}` + json("1"), false},
		{"application/json", strings.Repeat("[", 10_001)[:2000] + `"` + behind + `"]x` + behind, true},
		{"application/x-www-form-urlencoded", "x=%3Ctoken%3E&x='token':'&x=-----BEGIN+PRIVATE+KEY-----&" + behind, true},
		{"application/x-www-form-urlencoded", strings.Repeat("sig&", 400) + behind, false},
	} {
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:write")
		if res, got := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", c.body, "Authorization", "Bearer "+p, "Content-Type", c.media); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, got)
		}
		w := only(t, s, x.s.Task.ID).Request.Body
		if c.shown != strings.Contains(w.Text, behind) || !c.shown && !strings.HasSuffix(w.Text, "[left out]") {
			t.Errorf("%s %.80q: written is %.200q, %d left out", c.media, c.body, w.Text, w.LeftOut)
		}
	}
}

// A response that breaks off is recorded as interrupted.
func TestTranscriptOfAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "beginning")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s := b.written(t, bulk, everything())
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	_, _, _ = try(t, x.client(t, false), "GET", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+p)
	if a := only(t, s, x.s.Task.ID).Answer; !a.Cut || a.Body.Text != "beginning" {
		t.Errorf("written is %+v", a)
	}
}
