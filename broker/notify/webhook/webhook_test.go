package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
	"github.com/ebb-broker/ebb/broker/notify/webhook"
)

// receiver verifies every message according to Standard Webhooks, with an implementation
// of its own.
type receiver struct {
	t      *testing.T
	secret []byte
	public ed25519.PublicKey
	answer http.HandlerFunc // nil = 204

	mu  sync.Mutex
	got []notifytest.Arrived
	raw [][]byte
	sig []http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %v, %v", q.Method, q.Header, err)
	}
	r.verify(q.Header, body)
	var any any
	if err := json.Unmarshal(body, &any); err != nil {
		r.t.Errorf("%v: %s", err, body)
	}
	agenttexttest.ASCII(r.t, "body", string(body))
	a := notifytest.Arrived{ID: q.Header.Get("webhook-id"), Size: len(body)}
	walk(any, "", &a)
	r.mu.Lock()
	r.got, r.raw, r.sig = append(r.got, a), append(r.raw, body), append(r.sig, q.Header)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, q)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify is an independent implementation of the signature scheme.
func (r *receiver) verify(h http.Header, body []byte) {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if age := time.Since(time.Unix(sec, 0)); err != nil || age.Abs() > 5*time.Minute {
		r.t.Errorf("webhook-timestamp %q: %v, %s old", stamp, err, age)
	}
	signed := []byte(fmt.Sprintf("%s.%s.%s", id, stamp, body))
	found := 0
	for part := range strings.FieldsSeq(h.Get("webhook-signature")) {
		version, text, _ := strings.Cut(part, ",")
		sig, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			r.t.Error(err)
		}
		switch version {
		case "v1":
			m := hmac.New(sha256.New, r.secret)
			m.Write(signed)
			if bytes.Equal(m.Sum(nil), sig) {
				found++
			}
		case "v1a":
			if ed25519.Verify(r.public, signed, sig) {
				found++
			}
		}
	}
	if found < 2 {
		r.t.Errorf("%d signatures fit: %v", found, h)
	}
}

// walk collects every text of a JSON value, and its links.
func walk(v any, name string, a *notifytest.Arrived) {
	switch v := v.(type) {
	case string:
		a.Text = append(a.Text, v)
		if name == "link" {
			a.Links = append(a.Links, v)
		}
	case float64:
		a.Text = append(a.Text, strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		for _, x := range v {
			walk(x, name, a)
		}
	case map[string]any:
		for k, x := range v {
			a.Text = append(a.Text, k)
			walk(x, k, a)
		}
	}
}

func (r *receiver) arrived() []notifytest.Arrived {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]notifytest.Arrived(nil), r.got...)
}

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw+3xY9uCq0Yk="

func open(t *testing.T, answer http.HandlerFunc, change func(*webhook.Config)) (notify.Sender, *receiver) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secretText, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, secret: secret, public: public, answer: answer}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("whsk_"+base64.StdEncoding.EncodeToString(private)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := webhook.Config{Look: env(map[string]string{"HOOK": secretText}), Options: webhook.Options{
		URL: srv.URL + "/secret-path", Secret: notify.Key{Variable: "HOOK"}, Ed25519: notify.Key{File: file},
	}}
	if change != nil {
		change(&c)
	}
	s, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func env(of map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := of[name]; return v, ok }
}

//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
//ebb:invariant I9 The body of a webhook notification is ASCII
func TestSender(t *testing.T) {
	t.Parallel()
	notifytest.Run(t, notifytest.Suite{
		MaxSize: 256 << 10,
		Open: func(t *testing.T) (notify.Sender, func() []notifytest.Arrived) {
			s, r := open(t, nil, nil)
			return s, r.arrived
		},
		Hang: func(t *testing.T) notify.Sender {
			s, _ := open(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, nil)
			return s
		},
	})
}

// How Send classifies answers: accepted, retried, paused, or never retried.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   error
		busy   time.Duration
		ok     bool
	}{
		"200":          {answer: status(200), ok: true},
		"202 and text": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); _, _ = io.WriteString(w, "queued") }, ok: true},
		"400":          {answer: status(400)},
		"404":          {answer: status(404)},
		"410":          {answer: status(410), want: notify.ErrGone},
		"500":          {answer: status(500)},
		"429":          {answer: status(429), busy: time.Minute},
		"429 with how long": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		}, busy: 7 * time.Second},
		"503 for ever": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			w.WriteHeader(503)
		}, busy: time.Hour},
		"a redirect": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
			w.WriteHeader(307)
		}},
		"an answer without an end": {answer: func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := open(t, tt.answer, nil)
			_, err := s.Send(t.Context(), notifytest.Message(1))
			busy, isBusy := errors.AsType[*notify.BusyError](err)
			switch {
			case tt.ok != (err == nil), errors.Is(err, notify.ErrGone) != (tt.want != nil), isBusy != (tt.busy > 0), isBusy && busy.After != tt.busy:
				t.Errorf("got %v", err)
			case len(r.arrived()) != 1:
				t.Errorf("%d requests were made", len(r.arrived()))
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error names the path: %v", err)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// A name that resolves to this machine or a private address is refused, and the error
// does not repeat the path.
//
//ebb:invariant I8 The error of a delivery attempt does not repeat the URL of the notification channel
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	c := webhook.Config{Look: env(map[string]string{"HOOK": secretText}), Options: webhook.Options{URL: "https://localhost.localdomain/secret-path", Secret: notify.Key{Variable: "HOOK"}}}
	for _, bad := range []string{"http://hooks.example.com/x", "https://a:b@hooks.example.com", "ftp://x", "", "https://hooks.example.com/#x", "//x"} {
		c := c
		if c.URL = bad; make1(c) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	s, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Send(ctx, notifytest.Message(1)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func make1(c webhook.Config) error { _, err := webhook.New(c); return err }

func TestSecrets(t *testing.T) {
	t.Parallel()
	look := env(map[string]string{
		"OK": secretText, "PLAIN": "hunter2hunter2hunter2hunter2", "SHORT": "whsec_c2hvcnQ=", "LONG": "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), "BAD": "whsec_!!!!", "EMPTY": "",
		"SEED": "whsk_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "HALVES": "whsk_" + base64.StdEncoding.EncodeToString(append(make([]byte, 63), 1)),
	})
	v := func(name string) notify.Key { return notify.Key{Variable: name} }
	for name, tt := range map[string]struct {
		o  webhook.Options
		ok bool
	}{
		"a secret":             {webhook.Options{Secret: v("OK")}, true},
		"a key alone":          {webhook.Options{Ed25519: v("SEED")}, true},
		"none":                 {webhook.Options{}, false},
		"no prefix":            {webhook.Options{Secret: v("PLAIN")}, false},
		"short":                {webhook.Options{Secret: v("SHORT")}, false},
		"long":                 {webhook.Options{Secret: v("LONG")}, false},
		"no base64":            {webhook.Options{Secret: v("BAD")}, false},
		"empty":                {webhook.Options{Secret: v("EMPTY")}, false},
		"not set":              {webhook.Options{Secret: v("NOPE")}, false},
		"no file":              {webhook.Options{Secret: notify.Key{File: "/nowhere"}}, false},
		"both":                 {webhook.Options{Secret: notify.Key{File: "/nowhere", Variable: "OK"}}, false},
		"previous alone":       {webhook.Options{Previous: v("OK"), Ed25519: v("SEED")}, false},
		"halves of two keys":   {webhook.Options{Ed25519: v("HALVES")}, false},
		"an HMAC key as a key": {webhook.Options{Ed25519: v("OK")}, false},
	} {
		tt.o.URL = "https://hooks.example.com/x"
		err := make1(webhook.Config{Options: tt.o, Look: look})
		if (err == nil) != tt.ok || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While a secret is being replaced, receivers with either one can verify.
func TestTwoSecrets(t *testing.T) {
	t.Parallel()
	s, r := open(t, nil, func(c *webhook.Config) {
		c.Look = env(map[string]string{"NEW": "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)), "OLD": secretText})
		c.Secret, c.Previous = notify.Key{Variable: "NEW"}, notify.Key{Variable: "OLD"}
	})
	if _, err := s.Send(t.Context(), notifytest.Message(1)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(r.sig[0].Get("webhook-signature")); len(got) != 3 {
		t.Errorf("signatures: %q", got)
	}
}

// TestStandardWebhooks verifies the messages with the scheme's own JavaScript library.
func TestStandardWebhooks(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_NODE_JUDGE")
	s, r := open(t, nil, nil)
	for n := range 3 {
		if _, err := s.Send(t.Context(), notifytest.Message(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	type sent struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	var all []sent
	for i := range r.raw {
		h := map[string]string{}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			h[name] = r.sig[i].Get(name)
		}
		all = append(all, sent{h, string(r.raw[i])})
	}
	in, err := json.Marshal(map[string]any{"secret": secretText, "sent": all})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "webhooks.mjs"))
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "verified 3, refused 9" {
		t.Errorf("%v: %s", err, out)
	}
}
