package egressbench

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// people are the clients of ebb in a benchmark.
type people struct {
	issuer string
	http   *http.Client
	runner *client.Operator
	scope  scopes.Set
}

// task is a task with a credential for egress, and its egress endpoints.
type task struct {
	p           *people
	id, lease   string
	placeholder string
	endpoints   []tunnelEndpoint
}

// tunnelEndpoint is an egress endpoint, as its clients see it.
type tunnelEndpoint struct {
	socket string
	roots  *x509.CertPool
}

func enter(ctx context.Context, c Config) (*people, error) {
	p := &people{issuer: c.Issuer, http: c.HTTP}
	var err error
	if p.scope, err = scopes.ParseSet(Scope); err != nil {
		return nil, err
	}
	if p.runner, err = client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: c.Issuer, HTTP: c.HTTP}, ClientID: c.RunnerID, Key: c.Runner}); err != nil {
		return nil, err
	}
	_, err = p.runner.Secrets.Put(ctx, Secret, secret.New(c.Secret))
	return p, err
}

// open opens a task with a number of egress endpoints.
func (p *people) open(ctx context.Context, endpoints int) (_ *task, err error) {
	spec := wire.TaskSpec{
		Name: "ebb-bench egress", Kind: "bench", TTL: int64(time.Hour / time.Second), Heartbeat: int64(15 * time.Minute / time.Second), Ceiling: p.scope.String(),
		Expect: wire.Expect{Attestor: "enroll"}, Ticket: true,
	}
	opened, ticket, err := p.runner.Tasks.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	t := &task{p: p, id: opened.ID}
	defer func() {
		if err != nil {
			t.end(ctx)
		}
	}()
	if ticket == nil {
		return nil, errors.New("ebb returned no ticket with the task")
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return nil, err
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: p.issuer, HTTP: p.http}, Key: key})
	if err != nil {
		return nil, err
	}
	if _, err := s.Enrol(ctx, ticket.Ticket); err != nil {
		return nil, err
	}
	cred, err := s.Token(ctx, client.TokenRequest{Scope: p.scope.String(), Delivery: "egress"})
	if err != nil {
		return nil, err
	}
	t.placeholder, t.lease = cred.Token.Reveal(), cred.LeaseID
	for range endpoints {
		x, err := p.runner.Endpoints.Open(ctx, t.id, wire.EgressEndpointSpec{})
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(x.CA))
		t.endpoints = append(t.endpoints, tunnelEndpoint{x.Socket, roots})
	}
	return t, nil
}

// end completes the task, even if ctx has ended.
func (t *task) end(ctx context.Context) {
	_, _ = t.p.runner.Tasks.Complete(context.WithoutCancel(ctx), t.id)
}

// perEndpoint is the maximum number of connections of an egress endpoint. perTask is
// the number that a task gets here, so that it stays within its share of all
// connections.
const (
	perEndpoint = 64
	perTask     = 4 * perEndpoint
)

// spread is a set of tasks with enough egress endpoints for many connections.
type spread []*task

// spread opens tasks for n connections. If it fails it closes all of them.
func (b *run) spread(ctx context.Context, n int) (spread, error) {
	var s spread
	for left := n; left > 0; left -= perTask {
		t, err := b.people.open(ctx, (min(left, perTask)+perEndpoint-1)/perEndpoint)
		if err != nil {
			s.end(ctx)
			return nil, err
		}
		s = append(s, t)
	}
	return s, nil
}

// at returns the task and endpoint of a connection.
func (s spread) at(i int) (*task, tunnelEndpoint) {
	t := s[i/perTask]
	return t, t.endpoints[i%perTask/perEndpoint]
}

func (s spread) end(ctx context.Context) {
	for _, t := range s {
		t.end(ctx)
	}
}
