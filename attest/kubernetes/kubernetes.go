package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// gate is what both modes do with a token before and after somebody has vouched
// for it.
type gate struct {
	cfg     Config
	profile jose.Profile
}

// New makes the attestor of a mode; that of ModeReview is an attest.Watcher. It
// reads files and connects to nothing, so that ebb starts when a cluster is down.
func New(c Config) (attest.Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	g := gate{cfg: c, profile: jose.Profile{
		// The tokens of a cluster have no typ.
		Types: []string{"jwt"}, AllowNoType: true, Algs: c.Algs, Issuer: c.Issuer, AnyIssuer: c.Issuer == "",
		Audience: c.Audience, MaxLifetime: c.MaxLifetime, Leeway: *c.Leeway,
	}}
	open := newReviewed
	if c.Mode == ModeJWKS {
		open = newSigned
	}
	a, err := open(g)
	if err != nil {
		return nil, fmt.Errorf("attest/kubernetes %q: %w", c.Name, err)
	}
	return a, nil
}

// identity is what a token that was vouched for makes.
func (g *gate) identity(t token) attest.Identity {
	id := attest.Identity{
		Attestor: g.cfg.Name, Subject: t.subject(), Class: attest.ClassSigned, NotAfter: t.expiry,
		ReplayID: "jwt:" + t.digest, ReplayUntil: t.expiry.Add(*g.cfg.Leeway),
		Selectors: map[string]string{"namespace": t.namespace, "service_account": t.account.Name, "service_account_uid": t.account.UID},
	}
	if t.pod.Name != "" {
		id.Selectors["pod"], id.Selectors["pod_uid"] = t.pod.Name, t.pod.UID
	}
	if t.node.Name != "" {
		id.Selectors["node"] = t.node.Name
	}
	return id
}

// tell traces what the gate has found in a token.
func (g *gate) tell(ctx context.Context, t token) {
	attest.Passed(ctx, "audience", g.cfg.Audience)
	attest.Passed(ctx, "expiry", t.expiry.UTC().Format(time.RFC3339))
	attest.Passed(ctx, "bound to", t.subject())
}

// failure gives what is not the caller's fault the name of the instance.
func (g *gate) failure(err error) error {
	if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/kubernetes %q: cannot judge: %w", g.cfg.Name, err)
}
