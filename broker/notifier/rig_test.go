package notifier_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/webhook"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/scopes"
)

// place is the receiver of one channel: the messages it got, and its answers.
type place struct {
	srv    *httptest.Server
	status atomic.Int32 // 0 = 204

	mu  sync.Mutex
	got []sent
}

// sent is the part of a message that tests read.
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

// take returns the messages since the last call.
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

// rig is a broker with a notifier that the test drives.
type rig struct {
	*brokertest.Env
	t      *testing.T
	n      *notifier.Notifier
	config notifier.Config
	ops    *place                  // of channel ops
	leads  *place                  // of channel leads
	mails  *place                  // of channel mail, which reaches people
	bounds map[string][]scopes.Set // of people without a principal
	pushes *place                  // of channel push, which reaches people in browsers
}

func newRig(t *testing.T, routes ...notifier.Route) *rig {
	t.Helper()
	return newRigWith(t, nil, routes...)
}

// newRigWith is newRig with policies; nil = the default ones.
func newRigWith(t *testing.T, policies map[string][]byte, routes ...notifier.Route) *rig {
	t.Helper()
	r := &rig{Env: brokertest.New(t, brokertest.Config{Start: time.Date(2026, 11, 20, 14, 1, 0, 0, time.UTC), Policies: policies}), t: t, ops: newPlace(t), leads: newPlace(t), mails: newPlace(t), pushes: newPlace(t)}
	if len(routes) == 0 {
		routes = []notifier.Route{{Channels: []string{"ops"}}}
	}
	r.config = notifier.Config{
		Outbox: r.Store, Tasks: r.Store, ApprovalStore: r.Store, People: r.Store, Base: brokertest.Issuer, Rights: r.rights, Routes: routes, Now: r.Clock.Now, Most: 5,
		Channels: []notify.Channel{
			{Name: "ops", Sender: r.ops.sender(t), Place: true}, {Name: "leads", Sender: r.leads.sender(t), Place: true}, {Name: "mail", Sender: r.mails.sender(t), People: true}, {Name: "push", Sender: r.pushes.sender(t), Push: true},
		},
	}
	r.n = r.another()
	if err := r.Store.ReadFromHere(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// rights returns the configured rights of a person, or those of their last sign-in.
func (r *rig) rights(p people.Reach) broker.Principal {
	if who, known := r.Broker.Principal(p.Person); known {
		return who
	}
	out := broker.Principal{ID: p.Person, Groups: p.Groups, Also: p.Also, Bounds: r.bounds[p.Person]}
	for _, role := range p.Roles {
		out.Roles = append(out.Roles, broker.Role(role))
	}
	return out
}

func (r *rig) another() *notifier.Notifier {
	r.t.Helper()
	n, err := notifier.New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// look lets the notifier do one round of all its work.
func (r *rig) look() {
	r.t.Helper()
	if err := r.n.Follow(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for _, c := range []string{"ops", "leads", "mail", "push"} {
		if err := r.n.Deliver(r.t.Context(), c); err != nil {
			r.t.Fatal(err)
		}
	}
}

// turn advances the clock, and lets the broker do its due work.
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
	v := broker.Verdict{Approve: approve, Digest: q.Digest, Target: q.Target(), Present: true}
	if !approve {
		v.Code, v.Note = broker.TooBroad, "the note of ann"
	}
	if _, err := r.Broker.Decide(r.t.Context(), r.Principals[brokertest.Approver], q.ID, v); err != nil {
		r.t.Fatal(err)
	}
}

func count(t *testing.T, got []sent, want int) []sent {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d messages, want %d: %+v", len(got), want, got)
	}
	return got
}

func (r *rig) knows(person string, w people.Preferences, change func(*people.Reach)) {
	r.t.Helper()
	p := people.Reach{Person: person, Mail: person + "@example.com", Roles: []string{"approver"}, Groups: []string{"approvers"}, SeenAt: r.Clock.Now()}
	if change != nil {
		change(&p)
	}
	if err := r.Store.Know(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Store.ChangePreferences(r.t.Context(), person, func(old *people.Preferences) error { *old = w; return nil }); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) record(e audit.Entry) {
	r.t.Helper()
	e.At = r.Clock.Now()
	if err := r.Store.Append(r.t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		r.t.Fatal(err)
	}
}
