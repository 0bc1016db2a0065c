package egress_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/provider/static"
)

// E111: if the store has no room, a request that requires a transcript is refused, or sent without
// one, as its rule says. The audit log records which, and nothing of a refused request is kept.
//
//ebb:invariant I11 A request that requires a transcript is not sent if the transcript cannot be stored, unless its rule permits that
func TestTranscriptsAreFull(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		b := newBed(t, echo)
		rule := everything()
		rule.SkipWhenFull = skip
		s := b.written(t, 64<<10, rule) // less than one transcript may take
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:read")
		res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		if all, err := s.List(listAll); err != nil || len(all) != 0 {
			t.Errorf("skip %v: %d transcripts, %v", skip, len(all), err)
		}
		var es []audit.Entry
		until(t, "entries", func() bool { es = b.uses(t, x.s.Task.ID); return len(es) == map[bool]int{false: 1, true: 2}[skip] })
		var d broker.Exchange
		if err := json.Unmarshal(es[0].Data, &d); err != nil {
			t.Fatal(err)
		}
		switch {
		case skip && (res.StatusCode != 200 || d.Transcript != issuance.WithoutTranscript || len(b.arrived()) != 1):
			t.Errorf("without room: %s %q, in the audit log %+v", res.Status, body, d)
		case !skip && (res.StatusCode != 503 || !strings.Contains(body, "transcript_unavailable") || d.Transcript != "" || d.Reason != string(egress.NoTranscript) || len(b.arrived()) != 0):
			t.Errorf("without room: %s %q, in the audit log %+v, %d arrived", res.Status, body, d, len(b.arrived()))
		}
	}
}

// A request that is refused for another reason leaves no transcript.
func TestTranscriptOfWhatStays(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	s := b.written(t, bulk, everything())
	x := b.sandbox(t)
	c, auth := x.client(t, false), []string{"Authorization", "Bearer " + x.placeholder(t, "stripe:charges:read")}
	send(t, c, "GET", "https://"+b.host+"/v1/x", "", auth...)
	only(t, s, x.s.Task.ID)
	until(t, "the first is over", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/y", "", auth...); res.StatusCode != 503 {
		t.Errorf("without a record: %s %q", res.Status, body)
	}
	if all, err := s.List(listAll); err != nil || len(all) != 1 {
		t.Errorf("%d transcripts, %v", len(all), err)
	}
}

// Host, provider, method and path select the rule of a request. The first match applies, and an
// encoded slash avoids none.
//
//ebb:invariant I11 An encoded slash in the path does not avoid a transcript rule, whether or not the upstream decodes it
func TestTranscriptRules(t *testing.T) {
	t.Parallel()
	b := newBedOf(t, echo, func(_ *bed, c *static.Config) {
		r := c.Grants["charges"]["read"]
		r.EncodedSlash = true
		c.Grants["charges"]["read"] = r
	}, func(*brokertest.Config) {})
	of := func(name string, change func(*egress.TranscriptRule)) egress.TranscriptRule {
		r := egress.TranscriptRule{Name: name, Methods: []string{"GET"}, Paths: []string{"/**"}}
		change(&r)
		return r
	}
	s := b.written(t, bulk,
		of("elsewhere", func(r *egress.TranscriptRule) { r.Hosts = []string{"www.example.com"} }),
		of("other-port", func(r *egress.TranscriptRule) { r.Hosts = []string{"api.example.com"} }),
		of("nobodys", func(r *egress.TranscriptRule) { r.Providers = []string{"github"} }),
		of("posted", func(r *egress.TranscriptRule) { r.Methods = []string{"POST"} }),
		of("one", func(r *egress.TranscriptRule) {
			r.Paths = []string{"/v1/one/*"}
			r.Hosts = []string{b.host}
			r.Providers = []string{"stripe"}
		}),
		of("two", func(r *egress.TranscriptRule) { r.Paths = []string{"/v1/one/**", "/v1/two"}; r.Query = true }),
	)
	for path, want := range map[string]string{"/v1/one/x": "one", "/v1/one/x?secret-free=1": "one", "/v1/one/x/y": "two", "/v1/two?a=1": "two", "/v1/two/": "", "/v1/one/x%2Fy": "one", "/v1/one%2Fx": "one", "/v1/three": ""} {
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:read")
		if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+path, "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
			t.Fatal(path, res.Status, body)
		}
		until(t, "it is over", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
		all, err := s.List(of1(x.s.Task.ID))
		if err != nil || len(all) > 1 {
			t.Fatal(len(all), err)
		}
		got := ""
		if len(all) == 1 {
			w := only(t, s, x.s.Task.ID)
			got = w.Rule
			if (w.Query != "") != (got == "two" && strings.Contains(path, "?")) || w.Answer.Body.Withheld != "not_asked" || w.Answer.Body.Text != "" {
				t.Errorf("%s: written is %+v", path, w)
			}
		}
		if got != want {
			t.Errorf("%s is of %q, want %q", path, got, want)
		}
	}
}

// Bodies of any length are streamed: the transcript keeps the beginning, and counts the rest.
func TestTranscriptOfALongBody(t *testing.T) {
	t.Parallel()
	const n = 8 << 20
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%d ", got)
		_, _ = io.Copy(w, io.LimitReader(endless{}, n))
	})
	rule := everything()
	rule.RequestBytes, rule.AnswerBytes = 1000, 2000
	s := b.written(t, bulk, rule)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	res, body := send(t, x.client(t, true), "POST", "https://"+b.host+"/v1/charges", strings.Repeat("ä", n/2), "Authorization", "Bearer "+p, "Content-Type", "text/plain")
	if res.StatusCode != 200 || !strings.HasPrefix(body, fmt.Sprint(n)) {
		t.Fatal(res.Status, len(body))
	}
	w := only(t, s, x.s.Task.ID)
	if q := w.Request.Body; len(q.Text) > 1000 || len(q.Text) < 900 || q.Bytes != n || q.LeftOut < n-1000 || !strings.HasPrefix(strings.Repeat("ä", 500), q.Text) {
		t.Errorf("of the request: %d bytes of %d, %d left out", len(q.Text), q.Bytes, q.LeftOut)
	}
	if a := w.Answer.Body; len(a.Text) > 2000 || len(a.Text) < 1900 || a.Bytes != int64(len(body)) || a.LeftOut != a.Bytes-int64(len(a.Text)) {
		t.Errorf("of the answer: %d bytes of %d, %d left out", len(a.Text), a.Bytes, a.LeftOut)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '.'
	}
	return len(p), nil
}

// A transcript does not delay a stream, and records that a stream was disconnected.
func TestTranscriptOfAStream(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: tick\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := b.written(t, bulk, everything())
	x := b.sandbox(t)
	lines := x.stream(t, x.placeholder(t, "stripe:charges:read"))
	all, err := s.List(of1(x.s.Task.ID))
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	if w, err := s.Read(all[0].ID); err != nil || w.Answer != nil {
		t.Errorf("while it goes on: %+v, %v", w.Answer, err)
	}
	b.proxy.End(x.s.Task.ID)
	if rest, err := io.ReadAll(lines); err == nil && strings.Contains(string(rest), "data") {
		t.Errorf("went on with %q", rest)
	}
	if w := only(t, s, x.s.Task.ID); !w.Answer.Cut || w.Answer.Status != 200 || w.Answer.Body.Text != "data: tick\n\n" {
		t.Errorf("cut: %+v", w.Answer)
	}
}

// Concurrent requests have one transcript each, without text of another.
func TestTranscriptsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(text)
	})
	s := b.written(t, bulk, everything())
	x := b.sandbox(t)
	p, c := x.placeholder(t, "stripe:charges:write"), x.client(t, true)
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := strings.Repeat(fmt.Sprintf("<%d>", i), 20)
			if res, got, err := try(t, c, "POST", "https://"+b.host+"/v1/charges?n="+fmt.Sprint(i), body, "Authorization", "Bearer "+p, "Content-Type", "text/plain"); err != nil || res.StatusCode != 200 || got != body {
				t.Errorf("%d: %v %v", i, got, err)
			}
		})
	}
	all.Wait()
	until(t, "all are over", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2*n })
	list, err := s.List(listAll)
	if err != nil || len(list) != n {
		t.Fatal(len(list), err)
	}
	for _, h := range list {
		w, err := s.Read(h.ID)
		if err != nil || w.Answer == nil {
			t.Fatal(w, err)
		}
		want := strings.Repeat("<"+strings.TrimPrefix(w.Query, "n=")+">", 20)
		if w.Request.Body.Text != want || w.Answer.Body.Text != want {
			t.Errorf("%s: %q, %q", w.Query, w.Request.Body.Text, w.Answer.Body.Text)
		}
	}
}

// Faults of rules are reported at the start.
//
//ebb:invariant I8 The configuration is refused if a transcript rule names a header that carries credentials
func TestTranscriptRulesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*egress.TranscriptRule){
		"name": func(r *egress.TranscriptRule) { r.Name = "A rule" }, "hosts": func(r *egress.TranscriptRule) { r.Hosts = []string{"10.0.0.1"} },
		"methods": func(r *egress.TranscriptRule) { r.Methods = []string{"get"} }, "no paths": func(r *egress.TranscriptRule) { r.Paths = nil },
		"paths": func(r *egress.TranscriptRule) { r.Paths = []string{"/a/../b"} }, "Authorization": func(r *egress.TranscriptRule) { r.Headers = []string{"authorization"} },
		"Cookie": func(r *egress.TranscriptRule) { r.Headers = []string{"Cookie"} }, "Set-Cookie": func(r *egress.TranscriptRule) { r.Headers = []string{"set-cookie"} },
		"X-Api-Key": func(r *egress.TranscriptRule) { r.Headers = []string{"X-Api-Key"} }, "header": func(r *egress.TranscriptRule) { r.Headers = []string{"X Y"} },
		"request_bytes": func(r *egress.TranscriptRule) { r.RequestBytes = egress.MaxTranscriptBody + 1 }, "answer_bytes": func(r *egress.TranscriptRule) { r.AnswerBytes = -1 },
	} {
		r, wrong := everything(), 0
		change(&r)
		if r.Check("rules[0]", func(string, ...any) { wrong++ }); wrong == 0 {
			t.Errorf("%s is a rule", name)
		}
	}
	r := everything()
	r.Check("rules[0]", func(format string, a ...any) { t.Errorf(format, a...) })
	b := newBed(t, echo)
	c := b.cfg
	c.TranscriptRules = []egress.TranscriptRule{everything()}
	if _, err := egress.New(c); err == nil {
		t.Error("there are rules, and no place for transcripts")
	}
}
