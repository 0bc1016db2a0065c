package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/people"
	"ebb/broker/transcript"
	"ebb/scopes"
	"ebb/web/client"
)

// Config is what the day needs. All members are required.
type Config struct {
	Issuer   string                 // URL of the ebb
	Keys     map[string]jose.Signer // of People, by id
	Clock    *Clock                 // of the ebb
	Helpdesk *Helpdesk
	HTTP     *http.Client
	Broker   *broker.Broker // of the ebb, for what people do in the console alone
	Sessions people.Store   // in which they do it

	Transcripts *transcript.Store // of the ebb
}

// stage is what the acts share.
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

// at turns the clock to so long before now.
func (s *stage) at(ago time.Duration) { s.Clock.turn(ago) }

// later turns the clock on.
func (s *stage) later(d time.Duration) {
	s.Clock.turn(time.Since(s.Clock.Now()) - d)
}

// agent is a task and its sandbox.
type agent struct {
	*client.Sandbox
	s    *stage
	task string
	wait client.Pending // for the answer to what it asked last
}

// begin opens a task and enrols its sandbox.
func (s *stage) begin(spec broker.TaskSpec) (*agent, error) {
	spec.Expect, spec.Ticket = broker.Expect{Attestor: "enroll"}, true
	if spec.TTL == 0 {
		spec.TTL = 3600
	}
	task, ticket, err := s.people[Runner].OpenTask(s.ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	return s.enrol(task.ID, ticket)
}

func (s *stage) enrol(task string, ticket *broker.Ticket) (*agent, error) {
	if ticket == nil {
		return nil, errors.New("no ticket came with the task")
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return nil, err
	}
	box, err := client.NewSandbox(client.SandboxConfig{Config: s.client(), Key: key})
	if err != nil {
		return nil, err
	}
	if _, err := box.Enrol(s.ctx, ticket.Ticket); err != nil {
		return nil, err
	}
	return &agent{Sandbox: box, s: s, task: task}, nil
}

// get asks for what nobody is asked about.
func (a *agent) get(scope, tool string) error {
	_, err := a.lease(scope, tool)
	return err
}

// lease gets it, and says what it is called.
func (a *agent) lease(scope, tool string) (string, error) {
	got, err := a.Token(a.s.ctx, client.TokenRequest{Scope: scopes.MustParseSet(scope), Tool: tool})
	return got.LeaseID, err
}

// ask asks for what a person decides, and does not wait for the answer.
func (a *agent) ask(scope, tool, reason string, ttl time.Duration) (broker.Request, error) {
	ctx, enough := context.WithCancel(a.s.ctx)
	defer enough()
	want := scopes.MustParseSet(scope)
	_, err := a.Token(ctx, client.TokenRequest{
		Scope: want, Tool: tool, Reason: reason, TTL: ttl, Wait: true,
		Pending: func(p client.Pending) { a.wait = p; enough() },
	})
	if ctx.Err() == nil || a.s.ctx.Err() != nil {
		return broker.Request{}, fmt.Errorf("asking for %s: nobody was asked: %w", scope, err)
	}
	list, err := a.s.people[Operator].Requests(a.s.ctx, broker.RequestFilter{TaskID: a.task, State: broker.RequestPending})
	if err != nil {
		return broker.Request{}, err
	}
	for _, r := range list.Items {
		if r.Scopes.Equal(want) {
			return r, nil
		}
	}
	return broker.Request{}, fmt.Errorf("asking for %s: the request is not to be found", scope)
}

// take fetches what a person said yes to.
func (a *agent) take() error {
	_, err := a.Poll(a.s.ctx, a.wait, "")
	return err
}

// yes approves what r asks for, or less, as the console does.
func (s *stage) yes(who string, r broker.Request, narrower string, ttl time.Duration, note string) error {
	v := broker.Verdict{Approve: true, Digest: r.Digest, TTL: broker.Seconds(ttl / time.Second), Note: note, Target: r.Target(), Present: true}
	if narrower != "" {
		v.Scopes = scopes.MustParseSet(narrower)
	}
	p, _ := s.Broker.Principal(who)
	_, err := s.Broker.Decide(s.ctx, p, r.ID, v)
	return err
}

// no denies it.
func (s *stage) no(who string, r broker.Request, code broker.DenyCode, note string) error {
	_, err := s.people[who].Deny(s.ctx, r.ID, broker.Verdict{Code: code, Note: note})
	return err
}

// complete ends the task.
func (a *agent) complete() error {
	_, err := a.s.people[Runner].Complete(a.s.ctx, a.task)
	return err
}

// task is what most of the day's tasks have in common.
func task(name, kind, owner, ceiling string) broker.TaskSpec {
	return broker.TaskSpec{Name: name, Kind: kind, Owner: owner, Ceiling: scopes.MustParseSet(ceiling)}
}
