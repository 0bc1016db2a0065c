package notifier_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/notifier"
	"ebb/broker/notify"
	"ebb/broker/notify/webhook"
	"ebb/broker/people"
)

// place is a receiver of one channel: what it got, and how it answers.
type place struct {
	srv    *httptest.Server
	status atomic.Int32 // 0 = 204

	mu  sync.Mutex
	got []sent
}

// sent is what of a message tests look at.
type sent struct {
	ID   string
	Type string `json:"type"`
	Data struct {
		Event   string   `json:"event"`
		Subject string   `json:"subject"`
		Title   string   `json:"title"`
		Risk    string   `json:"risk"`
		Reasons []string `json:"reasons"`
		Owner   string   `json:"owner"`
		By      string   `json:"by"`
		Match   string   `json:"match_code"`
		Left    int      `json:"seconds_left"`
		Link    string   `json:"link"`
		Items   []struct {
			Event   string `json:"event"`
			Subject string `json:"subject"`
		} `json:"items"`
		More int `json:"more"`
	} `json:"data"`
	body string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{}
	p.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s := sent{ID: r.Header.Get("webhook-id"), body: string(body)}
		if err == nil {
			err = json.Unmarshal(body, &s)
		}
		if err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.got = append(p.got, s)
		p.mu.Unlock()
		if code := p.status.Load(); code != 0 {
			w.WriteHeader(int(code))
		}
	}))
	t.Cleanup(p.srv.Close)
	return p
}

// take returns what has come since the last look.
func (p *place) take() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.got
	p.got = nil
	return out
}

func (p *place) sender(t *testing.T) notify.Sender {
	t.Helper()
	s, err := webhook.New(webhook.Config{
		Options: webhook.Options{URL: p.srv.URL, Secret: notify.Key{Variable: "S"}},
		Look: func(string) (string, bool) {
			return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rig is an ebb with a notifier that the test drives.
type rig struct {
	*brokertest.Env
	t      *testing.T
	n      *notifier.Notifier
	config notifier.Config
	ops    *place // of channel ops
	leads  *place // of channel leads
	mails  *place // of channel mail, which reaches people
}

func newRig(t *testing.T, routes ...notifier.Route) *rig {
	t.Helper()
	r := &rig{Env: brokertest.New(t, brokertest.Config{Start: time.Date(2026, 11, 20, 14, 1, 0, 0, time.UTC)}), t: t, ops: newPlace(t), leads: newPlace(t), mails: newPlace(t)}
	if len(routes) == 0 {
		routes = []notifier.Route{{Channels: []string{"ops"}}}
	}
	r.config = notifier.Config{
		Store: r.Store, Journal: r.Store, Desk: r.Store, People: r.Store, Base: brokertest.Issuer, Routes: routes, Now: r.Clock.Now, Most: 5,
		Channels: []notifier.Channel{
			{Name: "ops", Sender: r.ops.sender(t), Place: true}, {Name: "leads", Sender: r.leads.sender(t), Place: true}, {Name: "mail", Sender: r.mails.sender(t), People: true},
		},
	}
	r.n = r.another()
	if err := r.Store.ReadFromHere(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) another() *notifier.Notifier {
	r.t.Helper()
	n, err := notifier.New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// look lets the notifier look once at everything.
func (r *rig) look() {
	r.t.Helper()
	if err := r.n.Follow(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for _, c := range []string{"ops", "leads", "mail"} {
		if err := r.n.Deliver(r.t.Context(), c); err != nil {
			r.t.Fatal(err)
		}
	}
}

// turn lets time pass, and the broker do what is due.
func (r *rig) turn(d time.Duration) {
	r.t.Helper()
	r.Clock.Add(d)
	r.look()
}

func (r *rig) asks(scope, reason string) broker.Request {
	r.t.Helper()
	s := r.Open(r.t, brokertest.Spec())
	in := s.Request(r.t, scope)
	in.Deferred, in.Reason = true, agenttext.From(reason)
	if _, err := r.Broker.Token(r.t.Context(), in); broker.AsError(err) == nil || broker.AsError(err).Kind != broker.Pending {
		r.t.Fatal(err)
	}
	return r.request(s.Task.ID)
}

func (r *rig) request(taskID string) broker.Request {
	r.t.Helper()
	rs, err := r.Store.Requests(r.t.Context(), broker.RequestFilter{TaskID: taskID})
	if err != nil || len(rs) != 1 {
		r.t.Fatal(len(rs), err)
	}
	return rs[0]
}

func (r *rig) level(q broker.Request) string {
	r.t.Helper()
	f, err := q.Sheet()
	if err != nil {
		r.t.Fatal(err)
	}
	return string(f.Risk.Level)
}

func (r *rig) decide(q broker.Request, approve bool) {
	r.t.Helper()
	v := broker.Verdict{Approve: approve, Digest: q.Digest}
	if !approve {
		v.Code, v.Note = broker.TooBroad, "the note of ann"
	}
	if _, err := r.Broker.Decide(r.t.Context(), r.Principals[brokertest.Approver], q.ID, v); err != nil {
		r.t.Fatal(err)
	}
}

const (
	highScope = "orders:eu/1:delete" // nobody knows whether that can be undone
	lowScope  = "orders:eu/1:read"
)

func count(t *testing.T, got []sent, want int) []sent {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d messages, want %d: %+v", len(got), want, got)
	}
	return got
}

// What is of high risk is told at once, with facts and a link, and never again.
func TestHighRiskAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	q := r.asks(highScope, "canary-of-the-agent")
	if r.level(q) != "high" {
		t.Fatalf("the risk is %s", r.level(q))
	}
	r.look()
	m := count(t, r.ops.take(), 1)[0]
	d := m.Data
	if m.Type != "request.waiting" || d.Subject != q.ID || d.Title != "Delete eu/1 at orders" || d.Risk != "high" || len(d.Reasons) == 0 || d.Match != broker.MatchCode(q.ID) ||
		d.Owner != q.Owner || d.Left <= 0 || d.Link != brokertest.Issuer+"/requests/"+q.ID || d.By != "" {
		t.Errorf("got %s", m.body)
	}
	if strings.Contains(m.body, "canary") {
		t.Errorf("an agent's words: %s", m.body)
	}
	for range 3 {
		r.turn(5 * time.Minute)
	}
	count(t, r.ops.take(), 0)
}

// Acceptance check 5: the same facts with other words of the agent make the same message.
func TestAgentTextChangesNothing(t *testing.T) {
	t.Parallel()
	var first string
	for i, words := range []string{"", "I must", "urgent: approved by security\u202e", strings.Repeat("x\n", 900)} {
		r := newRig(t) // at the same moment, and without a history
		q := r.asks(highScope, words)
		r.look()
		m := count(t, r.ops.take(), 1)[0]
		same := strings.NewReplacer(q.ID, "ID", q.TaskID, "TASK", broker.MatchCode(q.ID), "CODE").Replace(m.body)
		if i == 0 {
			first = same
		}
		if same != first {
			t.Errorf("%q changed it: %s\n%s", words, same, first)
		}
	}
}

// What is not of high risk waits for the digest, and is one message with others.
func TestDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.config.Most = 1
	r.n = r.another()
	first := r.asks(highScope, "")
	for range 3 {
		r.asks(highScope, "") // beyond what is told at once
	}
	r.look()
	count(t, r.ops.take(), 1)
	r.turn(13 * time.Minute) // 14:14
	count(t, r.ops.take(), 0)
	r.turn(time.Minute)
	m := count(t, r.ops.take(), 1)[0]
	if m.Type != "digest" || len(m.Data.Items) != 3 || m.Data.More != 0 || m.Data.Link != brokertest.Issuer+"/queue" {
		t.Errorf("got %s", m.body)
	}
	for _, i := range m.Data.Items {
		if i.Subject == first.ID {
			t.Error("one is told twice")
		}
	}
}

// Who was told that a request waits is told how it ended, and not by whom.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(*rig, broker.Request){
		"request.approved": func(r *rig, q broker.Request) { r.decide(q, true) },
		"request.denied":   func(r *rig, q broker.Request) { r.decide(q, false) },
		"request.withdrawn": func(r *rig, q broker.Request) {
			if _, err := r.Broker.CompleteTask(r.t.Context(), r.Principals[brokertest.Runner], q.TaskID, 0); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			q := r.asks(highScope, "")
			r.look()
			count(t, r.ops.take(), 1)
			end(r, q)
			r.look()
			m := count(t, r.ops.take(), 1)[0]
			if m.Type != want || m.Data.Subject != q.ID || strings.Contains(m.body, `"`+brokertest.Approver+`"`) || strings.Contains(m.body, "note") || m.Data.Left != 0 {
				t.Errorf("got %s", m.body)
			}
			count(t, r.leads.take(), 0)
		})
	}
}

// What is decided before anybody could be told is told nobody.
func TestDecidedInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.config.Most = 1
	r.n = r.another()
	r.asks(highScope, "")
	q := r.asks(highScope, "")
	r.look()
	count(t, r.ops.take(), 1)
	r.decide(q, false)
	r.turn(20 * time.Minute)
	count(t, r.ops.take(), 0)
}

// At half of its time a request that nobody answered is told to others, once.
func TestEscalation(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"ops"}, Escalate: []string{"leads"}})
	q, answered := r.asks(highScope, ""), r.asks(highScope, "")
	r.look()
	r.decide(answered, true)
	r.turn(14 * time.Minute)
	count(t, r.leads.take(), 0)
	r.turn(time.Minute)
	if m := count(t, r.leads.take(), 1)[0]; m.Type != "request.escalated" || m.Data.Subject != q.ID {
		t.Errorf("got %s", m.body)
	}
	r.turn(10 * time.Minute)
	count(t, r.leads.take(), 0)
}

// Routes are by group, risk, provider and event.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		route notifier.Route
		want  int
	}{
		"all":           {notifier.Route{}, 1},
		"the group":     {notifier.Route{Groups: []string{"x", "approvers"}}, 1},
		"another group": {notifier.Route{Groups: []string{"x"}}, 0},
		"the provider":  {notifier.Route{Providers: []string{"orders"}}, 1},
		"another":       {notifier.Route{Providers: []string{"mail"}}, 0},
		"the risk":      {notifier.Route{MinRisk: "high"}, 1},
		"the event":     {notifier.Route{Events: []notify.Event{notify.Waiting}}, 1},
		"another event": {notifier.Route{Events: []notify.Event{notify.BreakGlass}}, 0},
		"all of it":     {notifier.Route{Groups: []string{"approvers"}, Providers: []string{"orders"}, MinRisk: "high", Events: []notify.Event{notify.Waiting}}, 1},
		"most of it":    {notifier.Route{Groups: []string{"approvers"}, Providers: []string{"mail"}, MinRisk: "high"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.route.Channels = []string{"ops"}
			r := newRig(t, tt.route, tt.route) // two routes to one place are one message
			r.asks(highScope, "")
			r.look()
			count(t, r.ops.take(), tt.want)
		})
	}
}

func (r *rig) knows(person string, w people.Wishes, change func(*people.Reach)) {
	r.t.Helper()
	p := people.Reach{Person: person, Mail: person + "@example.com", Roles: []string{"approver"}, Groups: []string{"approvers"}, SeenAt: r.Clock.Now()}
	if change != nil {
		change(&p)
	}
	if err := r.Store.Know(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Store.Wish(r.t.Context(), person, w); err != nil {
		r.t.Fatal(err)
	}
}

// People are told as they wish, and only those whom it concerns.
func TestPeople(t *testing.T) {
	t.Parallel()
	usual := people.DefaultWishes()
	with := func(f func(*people.Wishes)) people.Wishes { w := usual; f(&w); return w }
	for name, tt := range map[string]struct {
		wishes people.Wishes
		change func(*people.Reach)
		now    int // at once
		later  int // in the next digest
	}{
		"as usual":           {wishes: usual, now: 1},
		"high in the digest": {wishes: with(func(w *people.Wishes) { w.High = people.InDigest }), later: 1},
		"nothing":            {wishes: with(func(w *people.Wishes) { w.High = people.Never })},
		"quiet":              {wishes: with(func(w *people.Wishes) { w.QuietFrom, w.QuietTo, w.Zone = 15*60, 15*60+10, "Europe/Berlin" }), later: 1},
		"quiet, but not so": {wishes: with(func(w *people.Wishes) {
			w.QuietFrom, w.QuietTo, w.Zone, w.HighBreaks = 15*60, 15*60+10, "Europe/Berlin", true
		}), now: 1},
		"quiet until it is over": {wishes: with(func(w *people.Wishes) { w.QuietFrom, w.QuietTo = 13*60, 20*60 })},
		"quiet at another time":  {wishes: with(func(w *people.Wishes) { w.QuietFrom, w.QuietTo = 22*60, 6*60 }), now: 1},
		"another group":          {wishes: usual, change: func(p *people.Reach) { p.Groups = []string{"x"} }},
		"no approver":            {wishes: usual, change: func(p *people.Reach) { p.Roles = []string{"auditor"} }},
		"no address":             {wishes: usual, change: func(p *people.Reach) { p.Mail = "" }},
		"long away":              {wishes: usual, change: func(p *people.Reach) { p.SeenAt = p.SeenAt.Add(-31 * 24 * time.Hour) }},
		"the owner":              {wishes: usual, change: func(p *people.Reach) { p.Also = []string{strings.ToUpper(brokertest.Spec().Owner)} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, notifier.Route{Channels: []string{"mail"}})
			r.knows("ann", tt.wishes, tt.change)
			r.asks(highScope, "")
			r.look()
			count(t, r.mails.take(), tt.now)
			r.turn(15 * time.Minute)
			count(t, r.mails.take(), tt.later)
			r.turn(15 * time.Minute)
			count(t, r.mails.take(), 0)
		})
	}
}

// A flood, and a crowd to tell of it, are kept in small units: all of it comes, bounded.
func TestManyAndToMany(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"mail", "ops"}})
	for i := range 210 {
		r.knows(fmt.Sprintf("person-%d", i), people.DefaultWishes(), nil)
	}
	for range 3 {
		r.asks(highScope, "")
	}
	r.look()
	to := map[string]int{}
	for _, m := range r.mails.take() {
		to[m.Data.Subject]++
	}
	for id, n := range to {
		if n != 200 {
			t.Errorf("%s was told %d", id, n)
		}
	}
	count(t, r.ops.take(), 3)
	if len(to) != 3 {
		t.Errorf("%d requests were told", len(to))
	}
}

// A task that the broker pauses by itself is its owner's news, and nobody else's.
func TestPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"mail"}})
	r.knows("ann", people.DefaultWishes(), nil)
	s := r.Open(t, brokertest.Spec())
	r.knows("bo", people.DefaultWishes(), func(p *people.Reach) { p.Also, p.Roles = []string{s.Task.Owner}, []string{"auditor"} })
	if _, err := r.Broker.PauseTask(t.Context(), r.Principals[brokertest.Operator], s.Task.ID, "by a person"); err != nil {
		t.Fatal(err)
	}
	r.look()
	count(t, r.mails.take(), 0)
	r.record(audit.Entry{Kind: audit.TaskPaused, Actor: "ebb", TaskID: s.Task.ID})
	r.look()
	if m := count(t, r.mails.take(), 1)[0]; m.Type != "task.paused" || m.Data.Link != brokertest.Issuer+"/tasks/"+s.Task.ID {
		t.Errorf("got %s", m.body)
	}
}

func (r *rig) record(e audit.Entry) {
	r.t.Helper()
	e.At = r.Clock.Now()
	if err := r.Store.Append(r.t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		r.t.Fatal(err)
	}
}

// A channel that fails is asked by one attempt at a time, and gets everything in the end,
// with the ids that it may have seen; another one is not held up.
func TestAChannelThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"ops", "leads"}})
	r.ops.status.Store(500)
	for range 4 {
		r.asks(highScope, "")
	}
	r.look()
	count(t, r.leads.take(), 4)
	tried := r.ops.take()
	if len(tried) != 3 {
		t.Errorf("%d attempts, want 3: then it rests", len(tried))
	}
	ids := map[string]bool{}
	for _, m := range tried {
		ids[m.ID] = true
	}
	r.ops.status.Store(0)
	got := map[string]bool{}
	for range 20 {
		r.turn(30 * time.Second)
		for _, m := range r.ops.take() {
			if got[m.ID] {
				t.Errorf("%s came twice after it was taken", m.ID)
			}
			got[m.ID] = true
			delete(ids, m.ID)
		}
	}
	if len(got) != 4 || len(ids) != 0 {
		t.Errorf("%d came, with other ids than before: %v", len(got), ids)
	}
}

// What is not taken until its request is over is given up.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ops.status.Store(500)
	r.asks(highScope, "")
	attempts := 0
	for range 100 {
		r.turn(time.Minute)
		attempts += len(r.ops.take())
	}
	if b, err := r.Store.Backlogs(t.Context(), r.Clock.Now().Add(24*time.Hour)); err != nil || len(b) != 0 || attempts < 4 || attempts > 30 {
		t.Errorf("%d attempts; left: %v, %v", attempts, b, err)
	}
}

// A receiver that says 410 is left alone for good; one that says 429, as long as it says.
func TestGoneAndBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ops.status.Store(http.StatusGone)
	r.asks(highScope, "")
	r.look()
	count(t, r.ops.take(), 1)
	r.asks(highScope, "")
	r.turn(10 * time.Minute)
	count(t, r.ops.take(), 0)

	b := newRig(t)
	b.ops.status.Store(http.StatusTooManyRequests)
	b.asks(highScope, "")
	b.asks(highScope, "")
	b.look()
	count(t, b.ops.take(), 1) // the other one waits with it
	b.turn(50 * time.Second)
	count(t, b.ops.take(), 0)
	b.ops.status.Store(0)
	b.turn(30 * time.Second)
	b.turn(30 * time.Second)
	count(t, b.ops.take(), 2)
}

// Replicas that look at the same record send each message once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 4 {
		r.asks(highScope, "")
	}
	var all sync.WaitGroup
	for range 4 {
		n := r.another()
		all.Go(func() {
			if err := n.Follow(t.Context()); err != nil {
				t.Error(err)
			}
			if err := n.Deliver(t.Context(), "ops"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.look()
	seen := map[string]int{}
	for _, m := range r.ops.take() {
		if seen[m.Data.Subject]++; seen[m.Data.Subject] > 1 {
			t.Errorf("%s was told twice", m.Data.Subject)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d were told", len(seen))
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*notifier.Config){
		"no store":                  func(c *notifier.Config) { c.Store = nil },
		"no base":                   func(c *notifier.Config) { c.Base = "" },
		"a channel twice":           func(c *notifier.Config) { c.Channels = append(c.Channels, c.Channels[0]) },
		"an unknown one":            func(c *notifier.Config) { c.Routes = []notifier.Route{{Channels: []string{"x"}}} },
		"an unknown to escalate to": func(c *notifier.Config) { c.Routes = []notifier.Route{{Escalate: []string{"x"}}} },
		"an unknown event":          func(c *notifier.Config) { c.Routes = []notifier.Route{{Events: []notify.Event{"x"}}} },
	} {
		c := r.config
		change(&c)
		if _, err := notifier.New(c); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}
