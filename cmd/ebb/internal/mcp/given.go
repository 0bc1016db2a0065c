package mcp

import (
	"context"
	"time"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// given is a credential of this sandbox, by name.
type given struct {
	LeaseID   string    `json:"lease_id"`
	Scope     string    `json:"scope"`
	Resource  string    `json:"resource,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	State     string    `json:"state"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

type listed struct {
	Credentials []given `json:"credentials"`
	Pending     []open  `json:"pending"`
}

// open is a request that waits for a person.
type open struct {
	RequestID  string `json:"request_id"`
	RequestURL string `json:"request_url,omitempty"`
	Scope      string `json:"scope"`
}

func givenOf(g client.Given) given {
	return given{
		LeaseID: g.LeaseID, Scope: g.Scope.String(), Resource: out.Line(g.Resource), Tool: out.Line(g.Tool), State: string(g.State),
		IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, RevokedAt: g.RevokedAt,
	}
}

// list is list_credentials. Whose they are says ebb, not the client.
func (s *Service) list(ctx context.Context, _ none) (listed, error) {
	all, err := s.cfg.Sandbox.Credentials(ctx)
	if err != nil {
		return listed{}, err
	}
	l := listed{Credentials: make([]given, len(all)), Pending: []open{}}
	for i, g := range all {
		l.Credentials[i] = givenOf(g)
	}
	for _, f := range s.desk.waiting() {
		w := f.waits()
		l.Pending = append(l.Pending, open{w.RequestID, w.RequestURL, w.Scope})
	}
	return l, nil
}

// revoke is revoke_credential. ebb ends what is this sandbox's and nothing else, and says
// the same either way; so what came of it is looked up among its own.
func (s *Service) revoke(ctx context.Context, a revokeArguments) (given, error) {
	if err := s.cfg.Sandbox.RevokeLease(ctx, a.LeaseID); err != nil {
		return given{}, err
	}
	all, err := s.cfg.Sandbox.Credentials(ctx)
	if err != nil {
		return given{}, err
	}
	for _, g := range all {
		if g.LeaseID == a.LeaseID {
			return givenOf(g), nil
		}
	}
	return given{}, broker.E(broker.NotFound, "This sandbox has no such credential among its newest 100. If it was an older one of its own it is ended; nothing of anybody else was touched. list_credentials names what there is.", nil)
}

// complete is complete_task.
func (s *Service) complete(ctx context.Context, _ none) (Completed, error) {
	return s.cfg.Complete(context.WithoutCancel(ctx))
}
