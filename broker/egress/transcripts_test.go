package egress_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// everything is a rule that stores as much as is allowed.
func everything() egress.TranscriptRule {
	return egress.TranscriptRule{
		Name: "all", Methods: []string{"GET", "POST"}, Paths: []string{"/**"}, Query: true, Headers: []string{"Content-Type", "X-Note", "Location", "User-Agent"},
		RequestBytes: 4 << 10, AnswerBytes: 4 << 10,
	}
}

// written makes b's proxy store transcripts by these rules.
func (b *bed) written(t *testing.T, bytes int64, rules ...egress.TranscriptRule) *transcript.Store {
	t.Helper()
	store, err := transcript.Open(transcript.Config{Dir: filepath.Join(t.TempDir(), "transcripts"), Bytes: bytes, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.with(t, func(c *egress.Config) { c.Transcripts, c.TranscriptRules = store, rules })
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// only returns the one transcript of a task after its end.
func only(t *testing.T, s *transcript.Store, task string) (out transcript.Transcript) {
	t.Helper()
	until(t, "a transcript", func() bool {
		all, err := s.List(transcript.Filter{TaskID: task})
		if err != nil || len(all) > 1 {
			t.Fatalf("%d transcripts, %v", len(all), err)
		}
		if len(all) == 0 {
			return false
		}
		if out, err = s.Read(all[0].ID); err != nil {
			t.Fatal(err)
		}
		return out.Answer != nil
	})
	return out
}

const bulk = 1 << 30

// The parts that a rule selects are stored as the sandbox sees them, and the audit log entry names
// the transcript.
func TestTranscript(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Header().Set("X-Note", "you are "+r.Header.Get("Authorization"))
			w.Header().Set("X-Other", "not named")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"you sent":%q,"by":%q}`, text, r.Header.Get("Authorization"))
		})
		s := b.written(t, bulk, everything())
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:write")
		sent := `{"amount":1,"for":"` + p + `"}`
		res, body := send(t, x.client(t, h2), "POST", "https://"+b.host+"/v1/charges?page=2", sent, "Authorization", "Bearer "+p, "Content-Type", "application/json", "X-Note", "mine", "X-Other", "unnamed")
		if res.StatusCode != http.StatusCreated {
			t.Fatal(res.Status, body)
		}
		got := only(t, s, x.s.Task.ID)
		if got.Method != "POST" || got.Path != "/v1/charges" || got.Host != b.host || got.Query != "page=2" || got.Rule != "all" || got.TaskID != x.s.Task.ID || egress.Prefix+got.LeaseID != p {
			t.Errorf("it is of %+v", got.Head)
		}
		if got.Request.Body.Text != sent || got.Request.Body.Bytes != int64(len(sent)) || got.Request.Body.Type != "application/json" {
			t.Errorf("the sandbox sent %q, the transcript has %+v", sent, got.Request.Body)
		}
		if a := got.Answer; a.Status != 201 || a.Body.Text != body || a.Cut || a.Body.LeftOut != 0 || a.Headers["X-Note"][0] != "you are Bearer [redacted]" || a.Headers["X-Other"] != nil {
			t.Errorf("the sandbox got %q, the transcript has %+v", body, a)
		}
		if h := got.Request.Headers; h["X-Note"][0] != "mine" || h["X-Other"] != nil || h["Authorization"] != nil {
			t.Errorf("headers: %v", h)
		}
		var es []audit.Entry
		until(t, "two entries", func() bool { es = b.uses(t, x.s.Task.ID); return len(es) == 2 })
		for _, e := range es {
			var d broker.Exchange
			if err := json.Unmarshal(e.Data, &d); err != nil || d.Transcript != got.ID {
				t.Errorf("%s: names the transcript %q, which is %q", e.Kind, d.Transcript, got.ID)
			}
		}
	}
}

// forms returns a secret in the forms in which responses echo it.
func forms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	each := ""
	for _, c := range []byte(secret) {
		each += fmt.Sprintf(`\u%04x`, c)
	}
	return map[string]string{
		"plain": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64 behind a byte": base64.StdEncoding.EncodeToString([]byte("x" + secret)),
		"base64url": base64.RawURLEncoding.EncodeToString([]byte("xy" + secret)), "base16": hex.EncodeToString([]byte(secret)), "escaped for a URL": url.QueryEscape(secret), "JSON": string(quoted), "escapes": each,
	}
}

// E92: the credential is in no transcript, in no form, from whichever side and wherever the stored
// text ends: neither from the upstream, nor from a sandbox that has learned it.
//
//ebb:invariant I8 A transcript contains the injected credential in none of the forms that responses are searched for
//ebb:invariant I8 If recorded text is cut off inside the injected credential, the transcript does not contain the beginning of that credential
func TestTranscriptHoldsNoCredential(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Note", r.Header.Get("X-Note"))
		w.Header().Set("Location", "https://x.example/?"+r.URL.RawQuery)
		_, _ = w.Write(text)
	})
	rule := everything()
	s := b.written(t, bulk, rule)
	for name, form := range forms(canary) {
		for _, before := range []int{0, rule.RequestBytes - len(form), rule.RequestBytes - len(form) + 1, rule.RequestBytes - len(form)/2, rule.RequestBytes - 9} {
			x := b.sandbox(t)
			p := x.placeholder(t, "stripe:charges:write")
			body := strings.Repeat(".", before) + form + strings.Repeat(".", 100)
			head := strings.ReplaceAll(form, `"`, "")
			res, got := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges?q="+url.QueryEscape(head), body, "Authorization", "Bearer "+p, "Content-Type", "text/plain", "X-Note", head)
			if res.StatusCode != http.StatusOK {
				t.Fatal(name, res.Status, got)
			}
			w := only(t, s, x.s.Task.ID)
			raw, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			if form := brokertest.Hides(raw, canary); form != "" {
				t.Errorf("%s at %d: it holds the secret (%s)", name, before, form)
			}
			text := strings.TrimRight(strings.TrimLeft(w.Request.Body.Text, "."), ".")
			if rest := strings.TrimSuffix(strings.ReplaceAll(text, "[redacted]", ""), `"`); len(strings.Trim(rest, `"`)) > 8 || text != "" && !strings.HasPrefix(strings.Trim(text, `"`), "[") && name == "plain" {
				t.Errorf("%s at %d: left of it is %q", name, before, text)
			}
		}
	}
}

// A body that cannot be searched for secrets is described and not stored.
//
//ebb:invariant I8 A body that cannot be searched for secrets is not stored in a transcript
func TestTranscriptOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if w.Header()["Content-Type"] = nil; r.Header.Get("Content-Type") != "" {
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		}
		_, _ = w.Write(text)
	})
	s := b.written(t, bulk, everything())
	for _, c := range []struct {
		media, coding, body string
		want                transcript.Reason
	}{
		{"application/json", "gzip", "{}", transcript.Compressed},
		{"application/octet-stream", "", "text", transcript.NotText},
		{"", "", "text", transcript.NotText},
		{"multipart/form-data; boundary=x", "", "--x--", transcript.NotText},
		{"application/grpc+proto", "", "\x00\x00\x00\x00\x00", transcript.NotText},
		{"text/plain", "", "a\x00b", transcript.NotText},
		{"text/plain; charset=utf-16", "", "text", transcript.NotText},
		{"text/plain; charset=utf-7", "", "text", transcript.NotText},
		{"text/plain; charset=ibm500", "", "text", transcript.NotText},
		{"text/plain; charset=UTF-8", "", "text", ""},
		{"text/plain; charset=ISO-8859-1", "", "a\xffb", ""},
		{"text/plain", "", "\x1b[2J\r\n\u202ehidden", ""},
	} {
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:write")
		headers := []string{"Authorization", "Bearer " + p, "Content-Type", c.media}
		if c.coding != "" {
			headers = append(headers, "Content-Encoding", c.coding)
		}
		if res, got := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", c.body, headers...); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, got)
		}
		w := only(t, s, x.s.Task.ID)
		if got := w.Request.Body; got.Withheld != c.want || (got.Text != "") != (c.want == "") || got.Bytes != int64(len(c.body)) {
			t.Errorf("%s %s %q: the request is %+v", c.media, c.coding, c.body, got)
		}
		if got := w.Answer.Body; c.coding == "" && (got.Withheld != c.want || (got.Text != "") != (c.want == "")) {
			t.Errorf("%s %q: the answer is %+v", c.media, c.body, got)
		}
	}
}

// E112: text from a sandbox or an upstream cannot begin a new line, or control a terminal.
func TestTranscriptInjection(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "one\n{\"id\":\"trn_forged\"}\n\x1b[31m\u009b\u202e\u2028")
	})
	dir := filepath.Join(t.TempDir(), "transcripts")
	s, err := transcript.Open(transcript.Config{Dir: dir, Bytes: bulk, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.with(t, func(c *egress.Config) { c.Transcripts, c.TranscriptRules = s, []egress.TranscriptRule{everything()} })
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges?a=%0a%1b", "a\r\n{}\n\x7f\u0085", "Authorization", "Bearer "+p, "Content-Type", "text/plain", "User-Agent", "a\tb\u009b31m")
	only(t, s, x.s.Task.ID)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || strings.Count(string(raw), "\n") != 2 || strings.ContainsFunc(string(raw), func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
		t.Errorf("%q, %v", raw, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// listAll selects all transcripts.
var listAll = transcript.Filter{Limit: 1000}

func of1(task string) transcript.Filter { return transcript.Filter{TaskID: task} }
