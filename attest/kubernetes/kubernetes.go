package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// gate has the steps of both modes before and after a token is verified.
type gate struct {
	cfg     Config
	profile jose.Profile
}

// New returns the attestor of the configured mode; that of ModeReview is an
// attest.Watcher. It reads files but makes no connections, so that ebb starts while a
// cluster is down.
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
		// Service account tokens have no typ.
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

// identity returns the Identity for a verified token.
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

// tell reports the claims of a token to the trace in ctx.
func (g *gate) tell(ctx context.Context, t token) {
	attest.Passed(ctx, "audience", g.cfg.Audience)
	attest.Passed(ctx, "expiry", t.expiry.UTC().Format(time.RFC3339))
	attest.Passed(ctx, "bound to", t.subject())
}

// failure adds the name of the instance to an error that is not a rejection.
func (g *gate) failure(err error) error {
	if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/kubernetes %q: cannot judge: %w", g.cfg.Name, err)
}
