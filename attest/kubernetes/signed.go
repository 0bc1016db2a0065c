package kubernetes

import (
	"context"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// signed is the attestor for ModeJWKS.
type signed struct {
	gate
	keys *jose.KeyCache
}

func newSigned(g gate) (attest.Attestor, error) {
	g.cfg.Logger.Warn("mode jwks: that a pod was deleted is not seen; its token is accepted until it expires, and the task does not end with the pod",
		"attestor", g.cfg.Name, "max_lifetime", g.cfg.MaxLifetime)
	if len(g.cfg.JWKS) == 0 {
		roots, err := g.cfg.roots()
		if err != nil {
			return nil, err
		}
		g.cfg.Fetch.RootCAs = roots
	}
	keys, err := jose.NewKeyCache(g.cfg.keys())
	if err != nil {
		return nil, err
	}
	return &signed{gate: g, keys: keys}, nil
}

// Attest implements attest.Attestor.
func (s *signed) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, s.failure(err)
	}
	c, err := jose.Verify(string(e.Document), s.profile, func(h jose.Header) (jose.Key, error) { return s.keys.Key(ctx, h) }, s.cfg.Now())
	if err != nil {
		return attest.Identity{}, s.failure(err)
	}
	t, err := s.readToken(c)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "signature", c.Header.KID)
	s.tell(ctx, t)
	id := s.identity(t)
	id.MadeAt = c.Made() // the token may be old, and the pod was not read
	return id, nil
}

// SelectorNames implements attest.Selecting.
func (s *signed) SelectorNames() []string {
	return []string{"namespace", "service_account", "service_account_uid", "pod", "pod_uid", "node"}
}
