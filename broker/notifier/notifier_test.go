package notifier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
)

const (
	highScope = "orders:eu/1:delete" // ebb does not know whether this can be undone
	lowScope  = "orders:eu/1:read"
)

// A request of high risk is notified at once, with facts and a link, and only once.
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

// Acceptance check 5: the same facts with different agent text give the same message.
//
//ebb:invariant I9
func TestAgentTextChangesNothing(t *testing.T) {
	t.Parallel()
	var first string
	for i, words := range []string{"", "I must", "urgent: approved by security\u202e", strings.Repeat("x\n", 900)} {
		r := newRig(t) // at the same time, and without a history
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

// Requests that are not of high risk wait for the digest, and share one message.
func TestDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.config.Most = 1
	r.n = r.another()
	first := r.asks(highScope, "")
	for range 3 {
		r.asks(highScope, "") // more than Most
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
			t.Error("a notice is sent twice")
		}
	}
}

// Recipients of a waiting request are notified of its result and of who decided, without the
// note. So is the owner of the task.
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
			r := newRig(t, notifier.Route{Channels: []string{"ops"}}, notifier.Route{Channels: []string{"mail"}, Groups: []string{"approvers"}})
			r.knows("bo", people.DefaultPreferences(), func(p *people.Reach) { p.Also, p.Roles = []string{brokertest.Spec().Owner}, []string{"auditor"} })
			q := r.asks(highScope, "")
			r.look()
			if m := count(t, r.ops.take(), 1)[0]; m.Data.By != "" {
				t.Errorf("got %s", m.body)
			}
			count(t, r.mails.take(), 0)
			end(r, q)
			r.look()
			m := count(t, r.ops.take(), 1)[0]
			by := map[string]string{"request.approved": brokertest.Approver, "request.denied": brokertest.Approver}[want]
			if m.Type != want || m.Data.Subject != q.ID || m.Data.By != by || strings.Contains(m.body, "note") || m.Data.Left != 0 {
				t.Errorf("got %s", m.body)
			}
			if owner := count(t, r.mails.take(), 1)[0]; owner.Type != want || owner.Data.By != by {
				t.Errorf("got %s", owner.body)
			}
			count(t, r.leads.take(), 0)
		})
	}
}

// No notification is sent for a request that was decided before its notification was due.
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

// At half of its waiting time, a request without a decision is escalated once.
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

// Routes select by group, risk, provider and event.
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
			r := newRig(t, tt.route, tt.route) // two routes to one channel give one message
			r.asks(highScope, "")
			r.look()
			count(t, r.ops.take(), tt.want)
		})
	}
}

// People are notified according to their preferences, and only of events that concern
// them.
func TestPeople(t *testing.T) {
	t.Parallel()
	usual := people.DefaultPreferences()
	with := func(f func(*people.Preferences)) people.Preferences { w := usual; f(&w); return w }
	for name, tt := range map[string]struct {
		preferences people.Preferences
		change      func(*people.Reach)
		now         int // at once
		later       int // in the next digest
	}{
		"as usual":           {preferences: usual, now: 1},
		"high in the digest": {preferences: with(func(w *people.Preferences) { w.High = people.InDigest }), later: 1},
		"nothing":            {preferences: with(func(w *people.Preferences) { w.High = people.Never })},
		"quiet":              {preferences: with(func(w *people.Preferences) { w.QuietFrom, w.QuietTo, w.Zone = 15*60, 15*60+10, "Europe/Berlin" }), later: 1},
		"quiet, but not so": {preferences: with(func(w *people.Preferences) {
			w.QuietFrom, w.QuietTo, w.Zone, w.HighBreaks = 15*60, 15*60+10, "Europe/Berlin", true
		}), now: 1},
		"quiet until it is over": {preferences: with(func(w *people.Preferences) { w.QuietFrom, w.QuietTo = 13*60, 20*60 })},
		"quiet at another time":  {preferences: with(func(w *people.Preferences) { w.QuietFrom, w.QuietTo = 22*60, 6*60 }), now: 1},
		"another group":          {preferences: usual, change: func(p *people.Reach) { p.Groups = []string{"x"} }},
		"no approver":            {preferences: usual, change: func(p *people.Reach) { p.Roles = []string{"auditor"} }},
		"no address":             {preferences: usual, change: func(p *people.Reach) { p.Mail = "" }},
		"long away":              {preferences: usual, change: func(p *people.Reach) { p.SeenAt = p.SeenAt.Add(-31 * 24 * time.Hour) }},
		"the owner":              {preferences: usual, change: func(p *people.Reach) { p.Also = []string{strings.ToUpper(brokertest.Spec().Owner)} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, notifier.Route{Channels: []string{"mail"}})
			r.knows("ann", tt.preferences, tt.change)
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

// A channel to browsers reaches the people who have turned it on, also without a mail address.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"mail", "push"}})
	for _, person := range []string{"ann", "bob"} {
		r.knows(person, people.DefaultPreferences(), func(p *people.Reach) { p.Mail = "" })
	}
	if err := r.Store.AddPush(t.Context(), people.Push{ID: "1", Person: "bob", Name: "Firefox", Sealed: "x", CreatedAt: r.Clock.Now()}); err != nil {
		t.Fatal(err)
	}
	r.asks(highScope, "")
	r.look()
	count(t, r.mails.take(), 0)
	count(t, r.pushes.take(), 1)
}

// TestBreakGlassIsTold: break-glass is notified at once, to channels and people,
// regardless of Most and of all preferences.
func TestBreakGlassIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"ops", "mail"}})
	never := people.Preferences{High: people.Never, Medium: people.Never, Low: people.Never}
	quiet := people.DefaultPreferences()
	quiet.QuietFrom, quiet.QuietTo = 13*60, 20*60
	digest := people.DefaultPreferences()
	digest.High = people.InDigest
	for person, w := range map[string]people.Preferences{"ann": never, "bob": quiet, "eve": digest} {
		r.knows(person, w, nil)
	}
	n := r.config.Most + 2
	for range n {
		r.record(audit.Entry{Kind: audit.BreakGlassUsed, Actor: "gil"})
	}
	r.look()
	count(t, r.ops.take(), n)
	count(t, r.mails.take(), 3*n)
}

// Only the owner is notified of a task that the broker paused.
func TestPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"mail"}})
	r.knows("ann", people.DefaultPreferences(), nil)
	s := r.Open(t, brokertest.Spec())
	r.knows("bo", people.DefaultPreferences(), func(p *people.Reach) { p.Also, p.Roles = []string{s.Task.Owner}, []string{"auditor"} })
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

func TestNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*notifier.Config){
		"no store":                  func(c *notifier.Config) { c.Outbox = nil },
		"no base":                   func(c *notifier.Config) { c.Base = "" },
		"no rights":                 func(c *notifier.Config) { c.Rights = nil },
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
