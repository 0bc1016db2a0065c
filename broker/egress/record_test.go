package egress_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// uses returns the audit log entries about the requests of a task, in order.
func (b *bed) uses(t *testing.T, task string) (out []audit.Entry) {
	t.Helper()
	es, err := b.Broker.Entries(t.Context(), b.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: task, Kind: "egress."})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range es {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// with replaces b's proxy by one with another configuration, for endpoints that begin from now on.
func (b *bed) with(t *testing.T, change func(*egress.Config)) {
	t.Helper()
	c := b.cfg
	change(&c)
	p, err := egress.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b.proxy = p
}

// Each request has an audit log entry before it is sent, and one when it has ended, with what it
// was and without its contents. Each refused request has an entry as well.
//
//ebb:invariant I11 A request through egress is recorded in the audit log before it is sent to the upstream
func TestUseIsOnTheRecord(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization"))
	})
	x := b.sandbox(t)
	tok, err := x.s.Ask(t, "stripe:charges:write")
	if err != nil {
		t.Fatal(err)
	}
	auth := []string{"Authorization", "Bearer " + tok.Token.Reveal()}
	c := x.client(t, false)
	if res, _ := send(t, c, "POST", "https://"+b.host+"/v1/charges?a=quiet", "body", auth...); res.StatusCode != 201 {
		t.Fatal(res.Status)
	}
	send(t, c, "GET", "https://"+b.host+"/v1/charges", "", auth...)
	send(t, c, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer mine")
	raw(t, x, "CONNECT 1.2.3.4:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := x.tunnelTo(t, b.host, "www.example.com"); err == nil {
		t.Error("a tunnel for another name")
	}
	var got []string
	var es []audit.Entry
	until(t, "five entries", func() bool { es = b.uses(t, x.s.Task.ID); return len(es) >= 6 })
	for _, e := range es {
		var d broker.Exchange
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		if text := string(e.Data); strings.Contains(text, "quiet") || strings.Contains(text, "canary") || strings.Contains(text, "mine") {
			t.Errorf("the audit log contains sent data: %s", text)
		}
		got = append(got, strings.Join([]string{e.Kind, d.Method, strings.Replace(d.Host, b.host, "H", 1), d.Path, d.Reason}, " "))
		switch e.Kind {
		case audit.EgressCompleted:
			if e.LeaseID != tok.LeaseID || d.Status != 201 || d.Sent != 4 || d.Received == 0 || d.Redacted != 1 || d.Cut {
				t.Errorf("completed: %s %s", e.LeaseID, e.Data)
			}
		case audit.EgressAllowed:
			if e.LeaseID != tok.LeaseID || e.Seq > es[slices.IndexFunc(es, func(e audit.Entry) bool { return e.Kind == audit.EgressCompleted })].Seq {
				t.Errorf("allowed: %s %s", e.LeaseID, e.Data)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"egress.allowed POST H /v1/charges ", "egress.completed POST H /v1/charges ",
		"egress.denied CONNECT H  misdirected", "egress.denied CONNECT   ip_literal", "egress.denied GET H /v1/charges no_placeholder", "egress.denied GET H /v1/charges not_allowed",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("in the audit log:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// E111: a request that cannot be written to the audit log is not sent, and the sandbox gets the
// reason.
//
//ebb:invariant I11 A request through egress is recorded in the audit log before it is sent to the upstream
func TestNothingLeavesUnrecorded(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	c, auth := x.client(t, false), []string{"Authorization", "Bearer " + x.placeholder(t, "stripe:charges:read")}
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", auth...); res.StatusCode != 200 {
		t.Fatal(res.Status, body)
	}
	until(t, "the first is over", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
	before := len(b.arrived())
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", auth...); res.StatusCode != 503 || !strings.Contains(body, "record_unavailable") {
		t.Errorf("without a record: %s %q", res.Status, body)
	}
	if n := len(b.arrived()); n != before {
		t.Errorf("%d requests arrived", n-before)
	}
}

// The requests of a task per minute are limited, and a second sandbox of the task does not raise
// the limit.
func TestRate(t *testing.T) {
	t.Parallel()
	b := newBedOn(t, echo, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 3 })
	x, other := b.sandbox(t), b.sandbox(t)
	auth := []string{"Authorization", "Bearer " + x.placeholder(t, "stripe:charges:read")}
	for range 3 {
		if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", auth...); res.StatusCode != 200 {
			t.Fatal(res.Status, body)
		}
	}
	if res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", auth...); res.StatusCode != 429 || !strings.Contains(body, "rate_limited") {
		t.Errorf("a fourth: %s %q", res.Status, body)
	}
	if res, body := send(t, other.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+other.placeholder(t, "stripe:charges:read")); res.StatusCode != 200 {
		t.Errorf("another task: %s %q", res.Status, body)
	}
}

// E107: a body that is too large is refused before it is sent, or disconnected while it is sent if
// its length was not given. So is a further body of a task that has sent its maximum.
func TestBytes(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
	b.with(t, func(c *egress.Config) { c.RequestBytes, c.TaskBytes = 1<<10, 2<<10 })
	x := b.sandbox(t)
	auth := []string{"Authorization", "Bearer " + x.placeholder(t, "stripe:charges:write")}
	c, url := x.client(t, false), "https://"+b.host+"/v1/charges"
	if res, body := send(t, c, "POST", url, strings.Repeat("x", 1<<10+1), auth...); res.StatusCode != 413 || !strings.Contains(body, "too_much") {
		t.Errorf("too large: %s %q", res.Status, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<12)))) // without a Content-Length
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(auth[0], auth[1])
	if res, err := c.Do(r); err == nil {
		if _ = res.Body.Close(); res.StatusCode != 413 {
			t.Errorf("too large without saying so: %s", res.Status)
		}
	}
	if res, body := send(t, c, "POST", url, strings.Repeat("x", 1<<10), auth...); res.StatusCode != 413 {
		t.Errorf("a task that has sent enough: %s %q", res.Status, body)
	}
	y := b.sandbox(t)
	if res, body := send(t, y.client(t, false), "POST", url, strings.Repeat("x", 1<<10), "Authorization", "Bearer "+y.placeholder(t, "stripe:charges:write")); res.StatusCode != 200 {
		t.Errorf("another task: %s %q", res.Status, body)
	}
}

// A task is tainted before it reads a response that third parties can write.
func TestUntrustedHostsTaint(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	b.with(t, func(c *egress.Config) { c.Untrusted = []string{"api.example.com"} })
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for range 2 {
		if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
			t.Fatal(res.Status, body)
		}
	}
	live, err := b.Config.LiveStore.Admit(t.Context(), broker.Admission{TaskID: x.s.Task.ID})
	if err != nil || !slices.Equal(live.Taint, []string{"egress/api.example.com"}) {
		t.Errorf("tainted by %v, %v", live.Taint, err)
	}
	es, err := b.Broker.Entries(t.Context(), b.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: x.s.Task.ID, Kind: audit.TaskTainted})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range es {
		n++
	}
	if n != 1 {
		t.Errorf("%d entries say so", n)
	}
}

// E78: a placeholder in a body is never replaced.
func TestPlaceholderInABody(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies <- string(text)
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	if res, body := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", "token="+p, "Authorization", "Bearer "+p); res.StatusCode != 200 {
		t.Fatal(res.Status, body)
	}
	if got := <-bodies; got != "token="+p {
		t.Errorf("the upstream got %q", got)
	}
}
