package history

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Config configures the day. All fields are required.
type Config struct {
	Issuer   string                 // URL of the ebb
	Keys     map[string]jose.Signer // of People, by ID
	Clock    *Clock                 // of the ebb
	Helpdesk *Helpdesk
	HTTP     *http.Client
	Broker   *core.Broker // of the ebb, for actions that are possible only in the console
	Sessions people.Store // the console sessions of these actions

	Transcripts *transcript.Store // of the ebb
}

// stage is the state shared by the acts.
type stage struct {
	Config
	ctx    context.Context
	people map[string]*client.Operator
}

func (c Config) client() client.Config {
	return client.Config{Issuer: c.Issuer, HTTP: c.HTTP, Now: c.Clock.Now}
}

func open(ctx context.Context, c Config) (*stage, error) {
	s := &stage{Config: c, ctx: ctx, people: map[string]*client.Operator{}}
	for _, p := range People() {
		o, err := client.NewOperator(client.OperatorConfig{Config: c.client(), ClientID: p.ID, Key: c.Keys[p.ID]})
		if err != nil {
			return nil, err
		}
		s.people[p.ID] = o
	}
	return s, nil
}

// at sets the clock to the given time before now.
func (s *stage) at(ago time.Duration) { s.Clock.turn(ago) }

// later advances the clock.
func (s *stage) later(d time.Duration) {
	s.Clock.turn(time.Since(s.Clock.Now()) - d)
}

// agent is a task and its sandbox.
type agent struct {
	*client.Sandbox
	s    *stage
	task string
	wait client.Pending // its last request that needs an approval
}

// begin opens a task and enrols its sandbox.
func (s *stage) begin(spec wire.TaskSpec) (*agent, error) {
	spec.Expect, spec.Ticket = wire.Expect{Attestor: "enroll"}, true
	if spec.TTL == 0 {
		spec.TTL = 3600
	}
	task, ticket, err := s.people[Runner].Tasks.Open(s.ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	return s.enrol(task.ID, ticket)
}

func (s *stage) enrol(task string, ticket *client.Ticket) (*agent, error) {
	if ticket == nil {
		return nil, errors.New("ebb returned no ticket with the task")
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return nil, err
	}
	sandbox, err := client.NewSandbox(client.SandboxConfig{Config: s.client(), Key: key})
	if err != nil {
		return nil, err
	}
	if _, err := sandbox.Enrol(s.ctx, ticket.Ticket); err != nil {
		return nil, err
	}
	return &agent{Sandbox: sandbox, s: s, task: task}, nil
}

// get requests a credential that needs no approval.
func (a *agent) get(scope, tool string) error {
	_, err := a.lease(scope, tool)
	return err
}

// lease requests a credential and returns its lease ID.
func (a *agent) lease(scope, tool string) (string, error) {
	got, err := a.Token(a.s.ctx, client.TokenRequest{Scope: scope, Tool: tool})
	return got.LeaseID, err
}

// ask requests a credential that needs an approval, and does not wait for the
// decision.
func (a *agent) ask(scope, tool, reason string, ttl time.Duration) (wire.Request, error) {
	ctx, enough := context.WithCancel(a.s.ctx)
	defer enough()
	_, err := a.Token(ctx, client.TokenRequest{
		Scope: scope, Tool: tool, Reason: reason, TTL: ttl, Wait: true,
		Pending: func(p client.Pending) { a.wait = p; enough() },
	})
	if ctx.Err() == nil || a.s.ctx.Err() != nil {
		return wire.Request{}, fmt.Errorf("request %s: it needs no approval: %w", scope, err)
	}
	list, err := a.s.people[Operator].Requests.List(a.s.ctx, client.RequestFilter{TaskID: a.task, State: wire.RequestPending})
	if err != nil {
		return wire.Request{}, err
	}
	canonical := scopes.MustParseSet(scope).String()
	for _, r := range list.Items {
		if r.Scopes == canonical {
			return r, nil
		}
	}
	return wire.Request{}, fmt.Errorf("request %s: the pending request is not listed", scope)
}

// take fetches the approved credential.
func (a *agent) take() error {
	_, err := a.Poll(a.s.ctx, a.wait, "")
	return err
}

// yes approves r, or a part of it, as the console does.
func (s *stage) yes(who string, r wire.Request, narrower string, ttl time.Duration, note string) error {
	v := broker.Verdict{Approve: true, Digest: r.Digest, TTL: broker.Seconds(ttl / time.Second), Note: note, Target: target(r),
		Present: true, Presence: broker.Presence{By: "oidc", ProvedAt: s.Clock.Now().UTC()}}
	if narrower != "" {
		v.Scopes = scopes.MustParseSet(narrower)
	}
	p, _ := s.Broker.Principal(who)
	_, err := s.Broker.Decide(s.ctx, p, r.ID, v)
	return err
}

// no denies r.
func (s *stage) no(who string, r wire.Request, code wire.DenyCode, note string) error {
	_, err := s.people[who].Requests.Deny(s.ctx, r.ID, wire.DenialBody{Code: code, Note: note})
	return err
}

// target is the name that an approver types to approve r at the console.
func target(r wire.Request) string {
	return risk.TitleOf(scopes.MustParseSet(r.Scopes), r.Provider).Target
}

// complete completes the task.
func (a *agent) complete() error {
	_, err := a.s.people[Runner].Tasks.Complete(a.s.ctx, a.task)
	return err
}

// task returns the specification that most tasks of the day use.
func task(name, kind, owner, ceiling string) wire.TaskSpec {
	return wire.TaskSpec{Name: name, Kind: kind, Owner: owner, Ceiling: ceiling}
}

// Clock is behind the machine's clock, by an amount that only decreases.
type Clock struct{ behind atomic.Int64 }

// NewClock returns a clock that is behind by this much.
func NewClock(behind time.Duration) *Clock {
	c := &Clock{}
	c.behind.Store(int64(behind))
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// turn sets how much the clock is behind. It never sets the clock back.
func (c *Clock) turn(behind time.Duration) {
	if int64(behind) < c.behind.Load() {
		c.behind.Store(int64(behind))
	}
}

//go:embed policies/*.cedar draft/*.cedar
var policies embed.FS

// DraftPolicies returns the policies that Operator proposes at the end of the
// day.
func DraftPolicies() ([]policyset.File, error) {
	dir, err := fs.Sub(policies, "draft")
	if err != nil {
		return nil, err
	}
	return policysource.ReadDir(dir)
}

// Policies returns the policies that apply on the day.
func Policies() (fs.FS, error) { return fs.Sub(policies, "policies") }

// IDs of the people of the day.
const (
	Runner    = "ci"  // opens tasks
	Mia       = "mia" // approver: web-maintainers
	Tom       = "tom" // approver: web-maintainers, finance
	Sam       = "sam" // approver: finance
	Auditor   = "eve"
	Operator  = "ola"
	Operator2 = "uma"
)

// People returns the principals that the ebb must know.
func People() []broker.Principal {
	approver := []broker.Role{broker.RoleApprover}
	return []broker.Principal{
		{ID: Runner, Roles: []broker.Role{broker.RoleRunner}},
		{ID: Mia, Roles: approver, Groups: []string{"web-maintainers"}},
		{ID: Tom, Roles: approver, Groups: []string{"finance", "web-maintainers"}},
		{ID: Sam, Roles: approver, Groups: []string{"finance"}},
		{ID: Auditor, Roles: []broker.Role{broker.RoleAuditor}},
		{ID: Operator, Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor}},
		{ID: Operator2, Roles: []broker.Role{broker.RoleOperator}},
	}
}
