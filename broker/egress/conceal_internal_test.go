package egress

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// openMember returns a member that has the name of a credential and no mark as its value; "" =
// there is none.
func openMember(v any) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if name := openMember(e); name != "" {
				return name
			}
		}
	case map[string]any:
		for name, e := range v {
			if isCredentialParameter(name) && e != redact.Mark {
				return name
			}
			if found := openMember(e); found != "" {
				return found
			}
		}
	}
	return ""
}

// concealing is a request that a rule requires a transcript of.
func concealing(t testing.TB) *outbound {
	t.Helper()
	store, err := transcript.Open(transcript.Config{Dir: filepath.Join(t.TempDir(), "transcripts"), Bytes: 1 << 20, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	all, err := newTranscripts(store, []TranscriptRule{{Name: "all", Methods: []string{"POST"}, Paths: []string{"/**"}, RequestBytes: 4096}})
	if err != nil {
		t.Fatal(err)
	}
	return &outbound{b: &endpoint{p: &Proxy{transcripts: all}}}
}

// FuzzConceal: JSON stays JSON, no member and no query parameter with the name of a credential
// keeps its value, and text is cut between characters.
func FuzzConceal(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `{"password":"x"}`, `{"a":[{"api_key" : {"b":[1,2]}}],"c":"d"}`, `{"pass\u0077ord":1}`, `{"token":"a`, `[{"token":`, "\xa6\xff", "{\"a\":1}\n{\"token\":2}\n", `{"token"`, `nul`, `{"a":"b" "token":"c"}`,
		"a=1&password=2", "user%5Btoken%5D=1&b", "%zz=1", "&&=", "äöü",
	} {
		f.Add(text, 3)
	}
	s := concealing(f)
	f.Fuzz(func(t *testing.T, text string, most int) {
		b := s.bodyOf(http.Header{"Content-Type": {"text/plain"}}, captured{text: []byte(text), bytes: int64(len(text))}, 4096)
		if !utf8.ValidString(b.Text) || len(b.Text) > 4096 || (b.Text == "") != (text == "" || b.Withheld != "") || b.Withheld != "" && !strings.Contains(text, "\x00") {
			t.Errorf("%q is written as %+v", text, b)
		}
		out, rest := concealJSON(text, isCredentialParameter, func(s string) string { return s })
		if json.Valid([]byte(text)) {
			if rest != 0 || !strings.HasPrefix(out, text[:1]) {
				t.Errorf("%q became %q, and %d are left out", text, out, rest)
			}
			var v any
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Fatalf("%q became %q: %v", text, out, err)
			}
			if name := openMember(v); name != "" {
				t.Errorf("%q became %q: %q is open", text, out, name)
			}
		}
		for part := range strings.SplitSeq(concealQuery(text, nil), "&") {
			name, value, _ := strings.Cut(part, "=")
			if plain, err := url.QueryUnescape(name); (err != nil || isCredentialParameter(plain)) && value != redact.Mark {
				t.Errorf("%q: %q is open", text, part)
			}
		}
		if most >= 0 && utf8.ValidString(text) {
			if got := clip(text, most); len(got) > most || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
				t.Errorf("%q clipped to %d is %q", text, most, got)
			}
			if got := clipped(text[:min(len(text), most)]); !utf8.ValidString(got) || len(text[:min(len(text), most)])-len(got) >= utf8.UTFMax {
				t.Errorf("%q cut at %d is %q", text, most, got)
			}
		}
	})
}

// TestNothingIsLeftOutUnsaid: a transcript states when it is incomplete, for every value that the
// sandbox sends.
//
//ebb:invariant I8 No value that a sandbox sends hides the text after it: the transcript contains that text or states that text was left out
func TestNothingIsLeftOutUnsaid(t *testing.T) {
	t.Parallel()
	s := concealing(t)
	for _, body := range []string{
		`{"note":"\ud800","to":"somebody"}`, "\ufeff" + `{"to":"somebody"}`, `{"a":1}{,"to":"somebody"}`, `{"a":1,/**/"to":"somebody"}`, `{'to':'somebody'}`, `{"token":NaN,"to":"somebody"}`,
		"{" + strings.Repeat(`"token":1,`, 350) + `"to":"somebody"}`,
	} {
		b := s.bodyOf(http.Header{"Content-Type": {"application/json"}}, captured{text: []byte(body), bytes: int64(len(body))}, 4096)
		if !strings.Contains(b.Text, "somebody") && b.LeftOut == 0 && b.Withheld == "" {
			t.Errorf("%.60q is written as %+v", body, b)
		}
	}
	if b := s.bodyOf(http.Header{"Content-Type": {"application/json"}}, captured{text: []byte(`{"a":"\ud800","b":1}`), bytes: 20}, 4096); b.Text != `{"a":"\ud800","b":1}` || b.LeftOut != 0 {
		t.Errorf("half a surrogate ends it: %+v", b)
	}
}

// BenchmarkListen measures a request that matches no rule: without rules, with some for its host,
// and with the maximum number for other hosts.
func BenchmarkListen(b *testing.B) {
	rules := func(n int, host string) (all []transcriptRule) {
		for i := range n {
			r := TranscriptRule{Name: fmt.Sprint("r", i), Methods: []string{"GET"}, Paths: []string{"/v2/**"}}
			all = append(all, transcriptRule{TranscriptRule: r, hosts: []stricturl.Host{{Name: host, Port: 443}}, exact: r.requests()})
		}
		return all
	}
	for name, t := range map[string]*transcripts{
		"none": nil, "4 of its host": {rules: rules(4, "api.example.com")}, "64 of others": {rules: rules(MaxTranscriptRules, "www.example.com")},
	} {
		b.Run(name, func(b *testing.B) {
			x := &endpoint{p: &Proxy{transcripts: t}}
			r, err := http.NewRequest(http.MethodGet, "https://api.example.com/v1/charges/ch_1", nil)
			if err != nil {
				b.Fatal(err)
			}
			h := stricturl.Host{Name: "api.example.com", Port: 443}
			b.ReportAllocs()
			for b.Loop() {
				if x.newRecorder(r, h) != nil {
					b.Fatal("it is of a rule")
				}
			}
		})
	}
}
