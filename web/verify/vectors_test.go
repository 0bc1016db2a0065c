package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

var update = flag.Bool("update", false, "write testdata/vectors/*.json again, with new keys")

// vectorFile is one file of testdata/vectors. The verifiers in other languages
// read the same files; testdata/vectors/README.md describes the format.
type vectorFile struct {
	Config  vectorConfig      `json:"config"`
	JWKS    map[string]string `json:"jwks"` // responses of the key endpoint by name
	Vectors []vector          `json:"vectors"`
}

type vectorConfig struct {
	Issuer       string `json:"issuer"`
	Resource     string `json:"resource"`
	Scope        string `json:"scope"` // what every request needs
	Now          int64  `json:"now"`
	MaxStaleness int    `json:"max_staleness_seconds"`
	Up           int    `json:"up_seconds"` // age of the replay memory
	Feed         string `json:"feed"`       // body of the first response of the feed
}

type vector struct {
	Name   string       `json:"name"`
	JWKS   []string     `json:"jwks,omitempty"` // successive responses, the last one repeats; none = "issuer"
	Up     *int         `json:"up_seconds,omitempty"`
	Unread bool         `json:"unread,omitempty"` // the first response of the feed never comes
	Steps  []vectorStep `json:"steps"`
}

// vectorStep has one member: a response of the feed, a wait, or a request.
type vectorStep struct {
	Feed    *vectorFeed    `json:"feed,omitempty"`
	Advance int            `json:"advance_seconds,omitempty"`
	Request *vectorRequest `json:"request,omitempty"`
	Want    *vectorWant    `json:"want,omitempty"` // with Request
}

type vectorFeed struct {
	Cursor string `json:"cursor"` // that the verifier must send
	Status int    `json:"status"` // 0 = the connection fails
	Type   string `json:"content_type,omitempty"`
	Body   string `json:"body"`
}

type vectorRequest struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers [][2]string `json:"headers"`
}

// vectorWant is the verdict: allow, or status and error. Error is "" for a
// request without credentials and for 503.
type vectorWant struct {
	Allow  *vectorToken `json:"allow,omitempty"`
	Status int          `json:"status,omitempty"`
	Error  string       `json:"error,omitempty"`
}

type vectorToken struct {
	Subject  string `json:"subject"`
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	TaskID   string `json:"task_id"`
	LeaseID  string `json:"lease_id"`
	JKT      string `json:"jkt"`
}

// TestVectors checks that this package gives the verdict of every shared vector.
func TestVectors(t *testing.T) {
	t.Parallel()
	if *update {
		for name, f := range newForge(t).files() {
			f.write(t, filepath.Join("testdata", "vectors", name+".json"))
		}
	}
	paths, err := filepath.Glob("testdata/vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/vectors: %v", err)
	}
	count, seen := 0, map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var f vectorFile
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range f.Vectors {
			if count++; seen[v.Name] {
				t.Errorf("two vectors have the name %q", v.Name)
			}
			seen[v.Name] = true
			t.Run(v.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newRehearsal(t, f, v).run(v) })
			})
		}
	}
	if count < 200 {
		t.Errorf("%d vectors, want 200 or more", count)
	}
}

// write puts each vector on its own line.
func (f vectorFile) write(t *testing.T, path string) {
	t.Helper()
	line := func(v any) []byte {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(b.Bytes())
	}
	var b bytes.Buffer
	b.WriteString("{\"config\":" + string(line(f.Config)) + ",\n\"jwks\":{\n")
	for i, name := range slices.Sorted(maps.Keys(f.JWKS)) {
		b.WriteString(strings.Repeat(",\n", min(i, 1)) + string(line(name)) + ":" + string(line(f.JWKS[name])))
	}
	b.WriteString("},\n\"vectors\":[\n")
	for i, v := range f.Vectors {
		b.WriteString(strings.Repeat(",\n", min(i, 1)) + string(line(v)))
	}
	b.WriteString("\n]}\n")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rehearsal runs one vector: it is the issuer, and holds the clock.
type rehearsal struct {
	t    *testing.T
	v    *verify.Verifier
	sets []string // the remaining responses of the key endpoint

	mu   sync.Mutex
	now  time.Time
	poll *poll // the request at the feed that waits for its response
}

type poll struct {
	cursor string
	at     time.Time
	answer chan *http.Response // nil = the connection fails
}

func newRehearsal(t *testing.T, f vectorFile, v vector) *rehearsal {
	r := &rehearsal{t: t, now: time.Unix(f.Config.Now, 0)}
	for _, name := range v.JWKS {
		r.sets = append(r.sets, f.JWKS[name])
	}
	if len(r.sets) == 0 {
		r.sets = []string{f.JWKS["issuer"]}
	}
	up := f.Config.Up
	if v.Up != nil {
		up = *v.Up
	}
	began := r.now.Add(-time.Duration(up) * time.Second)
	var err error
	r.v, err = verify.New(verify.Config{
		Issuer: f.Config.Issuer, Resource: f.Config.Resource, ClientID: "orders", Key: p256(t),
		RequireScopes: func(*http.Request) (scopes.Set, error) { return scopes.ParseSet(f.Config.Scope) },
		MaxStaleness:  time.Duration(f.Config.MaxStaleness) * time.Second,
		HTTP:          &http.Client{Transport: r}, Now: r.read,
		Replay: verify.NewReplay(0, func() time.Time { return began }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.v.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	if !v.Unread {
		r.feed(vectorFeed{Status: 200, Body: f.Config.Feed})
	}
	return r
}

func (r *rehearsal) read() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rehearsal) run(v vector) {
	for i, s := range v.Steps {
		switch {
		case s.Feed != nil:
			r.feed(*s.Feed)
		case s.Request != nil:
			q := httptest.NewRequest(s.Request.Method, s.Request.URL, nil)
			q.Header = http.Header{}
			for _, h := range s.Request.Headers {
				q.Header.Add(h[0], h[1])
			}
			tok, err := r.v.Verify(q)
			if got := verdict(tok, err); got != line(s.Want) {
				r.t.Errorf("step %d: %s (%v), want %s", i, got, err, line(s.Want))
			}
		default:
			r.mu.Lock()
			r.now = r.now.Add(time.Duration(s.Advance) * time.Second)
			r.mu.Unlock()
		}
	}
}

func verdict(tok *verify.Token, err error) string {
	if err == nil {
		return line(&vectorWant{Allow: &vectorToken{tok.Subject, tok.ClientID, tok.Scope.String(), tok.TaskID, tok.LeaseID, tok.JKT}})
	}
	e, ok := errors.AsType[*verify.Error](err)
	if !ok {
		return err.Error()
	}
	return line(&vectorWant{Status: e.Status, Error: string(e.Code)})
}

func line(w *vectorWant) string { b, _ := json.Marshal(w); return string(b) }

// feed answers one request at the feed that was sent at the current time. An
// older one fails, after which the verifier sends a new one.
func (r *rehearsal) feed(f vectorFeed) {
	for range 100 {
		synctest.Wait()
		r.mu.Lock()
		p, now := r.poll, r.now
		r.poll = nil
		r.mu.Unlock()
		switch {
		case p == nil:
			time.Sleep(5 * time.Second) // the pause after a failure, in synctest's time
			continue
		case !p.at.Equal(now):
			p.answer <- nil
			continue
		case p.cursor != f.Cursor:
			r.t.Errorf("the feed was asked with the cursor %q, want %q", p.cursor, f.Cursor)
		}
		if f.Status == 0 {
			p.answer <- nil
			return
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("Content-Type", f.Type)
		if f.Type == "" {
			rec.Header().Set("Content-Type", "application/json")
		}
		rec.WriteHeader(f.Status)
		_, _ = rec.WriteString(f.Body)
		p.answer <- rec.Result()
		synctest.Wait()
		return
	}
	r.t.Fatal("the verifier does not ask for the feed")
}

// RoundTrip is the issuer.
func (r *rehearsal) RoundTrip(q *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	switch q.URL.Path {
	case "/.well-known/jwks.json":
		r.mu.Lock()
		set := r.sets[0]
		r.sets = r.sets[min(1, len(r.sets)-1):]
		r.mu.Unlock()
		if set == "" {
			rec.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = rec.WriteString(set)
	case "/oauth2/token":
		reply(rec, 200, map[string]any{"access_token": "feed-token", "token_type": "DPoP", "expires_in": 36000})
	case "/v1/revocations":
		p := &poll{cursor: q.URL.Query().Get("cursor"), at: r.read(), answer: make(chan *http.Response, 1)}
		r.mu.Lock()
		r.poll = p
		r.mu.Unlock()
		select {
		case resp := <-p.answer:
			if resp == nil {
				return nil, errors.New("connection reset")
			}
			resp.Request = q
			return resp, nil
		case <-q.Context().Done():
			r.mu.Lock()
			if r.poll == p {
				r.poll = nil
			}
			r.mu.Unlock()
			return nil, q.Context().Err()
		}
	}
	resp := rec.Result()
	resp.Request = q
	return resp, nil
}
