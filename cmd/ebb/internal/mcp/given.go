package mcp

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/wire"
)

// given is a credential issued to this sandbox, without the secret.
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

// open is a request that waits for an approval.
type open struct {
	RequestID  string `json:"request_id"`
	RequestURL string `json:"request_url,omitempty"`
	Scope      string `json:"scope"`
}

func givenOf(g wire.OwnCredential) given {
	return given{
		LeaseID: out.Line(g.LeaseID), Scope: out.Line(g.Scope), Resource: out.Line(g.Resource), Tool: out.Line(g.Tool), State: out.Line(string(g.State)),
		IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, RevokedAt: g.RevokedAt,
	}
}

// list implements list_credentials. ebb returns only credentials of the
// authenticated sandbox.
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
		l.Pending = append(l.Pending, open{out.Line(w.RequestID), out.Line(w.RequestURL), out.Line(w.Scope)})
	}
	return l, nil
}

// revoke implements revoke_credential. ebb revokes only credentials of this
// sandbox, and returns the same response in either case. So the state is looked
// up in the sandbox's list.
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
	return given{}, &fault{kind: wire.KindNotFound, said: "This sandbox has no such credential among its newest 100. If it is an older one of this sandbox it was revoked; no other credential was changed. See list_credentials."}
}

// complete implements complete_task.
func (s *Service) complete(ctx context.Context, _ none) (Completed, error) {
	return s.cfg.Complete(context.WithoutCancel(ctx))
}
