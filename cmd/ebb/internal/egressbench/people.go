package egressbench

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/web/client"
)

// people are who uses ebb in a bench.
type people struct {
	issuer string
	http   *http.Client
	runner *client.Operator
	scope  scopes.Set
}

// task is one task with a credential by egress and the boxes that use it.
type task struct {
	p           *people
	id, lease   string
	placeholder string
	boxes       []tunnelBox
}

// tunnelBox is a box as its clients see it.
type tunnelBox struct {
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
	_, err = p.runner.PutSecret(ctx, Secret, provider.NewSecret(c.Secret))
	return p, err
}

// open opens a task with so many boxes.
func (p *people) open(ctx context.Context, boxes int) (_ *task, err error) {
	spec := broker.TaskSpec{
		Name: "ebb bench egress", Kind: "bench", TTL: broker.Seconds(time.Hour / time.Second), Heartbeat: broker.Seconds(15 * time.Minute / time.Second), Ceiling: p.scope,
		Expect: broker.Expect{Attestor: "enroll"}, Ticket: true,
	}
	opened, ticket, err := p.runner.OpenTask(ctx, spec)
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
		return nil, errors.New("no ticket came with the task")
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
	cred, err := s.Token(ctx, client.TokenRequest{Scope: p.scope, Delivery: "egress"})
	if err != nil {
		return nil, err
	}
	t.placeholder, t.lease = cred.Token.Reveal(), cred.LeaseID
	for range boxes {
		x, err := p.runner.OpenBox(ctx, t.id, broker.BoxSpec{})
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(x.CA))
		t.boxes = append(t.boxes, tunnelBox{x.Socket, roots})
	}
	return t, nil
}

// end completes the task, whatever has become of ctx.
func (t *task) end(ctx context.Context) { _, _ = t.p.runner.Complete(context.WithoutCancel(ctx), t.id) }
