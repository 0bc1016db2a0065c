package broker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"ebb/attest/jose"
	"ebb/broker/provider"
	"ebb/scopes"
)

// ownToken is a verified access token of ours. Whether it is still alive is the
// ledger's to say, each time: nothing here is a substitute for asking.
type ownToken struct {
	id, sub, clientID, taskID, txn string
	aud                            string
	exp                            time.Time
	scopes                         scopes.Set
	roles                          []Role // of a token for the API, in place of scopes
	bind                           provider.Binding
	act                            map[string]any
	authAt                         time.Time // of the principal; zero = the token does not say
	ancestors                      []string  // tasks above its own
	lineage                        []string  // leases it lives and dies with: those it was narrowed from, oldest first, and its own
	payload                        json.RawMessage
}

// claim is the collision-resistant name of a private claim (RFC 7519 section 4.2).
func (b *Broker) claim(name string) string { return b.cfg.Issuer + "/claims/" + name }

// sign signs claims with the active key.
func (b *Broker) sign(typ string, claims any) (string, error) {
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return "", err
	}
	return jose.Sign(signer, jose.SignHeader{Type: typ, KID: kid}, claims)
}

// verifyOwn verifies an access token of ours for one audience ("" = any). The
// signature check is cached by the hash of the token, for at most a minute and
// never past its expiry.
func (b *Broker) verifyOwn(token, audience string) (*ownToken, error) {
	sum := sha256.Sum256([]byte(token))
	now := b.now()
	t, hit := b.verified.Get(sum)
	if !hit {
		var err error
		if t, err = b.parseOwn(token, now); err != nil {
			return nil, err
		}
		b.verified.Add(sum, t)
	}
	if !now.Before(t.exp) {
		return nil, E(Unauthenticated, "The token has expired.", nil)
	}
	if audience != "" && t.aud != audience {
		return nil, E(Unauthenticated, "The token is for another resource.", nil)
	}
	return t, nil
}

// replicaSkew is how far the clocks of replicas may differ: a token that another
// one has just issued is not from the future. Its end is verifyOwn's to check.
const replicaSkew = 10 * time.Second

func (b *Broker) parseOwn(token string, now time.Time) (*ownToken, error) {
	c, err := jose.Verify(token, jose.Profile{
		Types: []string{"at+jwt"}, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256},
		Issuer: b.cfg.Issuer, AnyAudience: true, MaxLifetime: max(b.cfg.Limits.MaxTTL, b.cfg.Limits.PrincipalTTL) + time.Minute,
		Leeway: replicaSkew,
	}, b.cfg.Keys.KeySource(now), now)
	if err != nil {
		if !errors.Is(err, jose.ErrToken) {
			return nil, unavailable(err)
		}
		return nil, E(Unauthenticated, publicOf(err, "The token was refused."), err)
	}
	t := &ownToken{
		id: c.ID, sub: c.Subject, clientID: c.ClientID, exp: c.Expiry,
		payload: append(json.RawMessage(nil), c.Payload()...),
	}
	if len(c.Audience) == 1 {
		t.aud = c.Audience[0]
	}
	t.taskID, _ = c.String(b.claim("task_id"))
	t.txn, _ = c.String("txn")
	if c.Has("auth_time") {
		var at int64
		if err := c.DecodeClaim("auth_time", &at); err != nil {
			return nil, E(Unauthenticated, "The token is malformed.", err)
		}
		t.authAt = time.Unix(at, 0)
	}
	parents, _ := c.String(b.claim("parents"))
	t.lineage = append(strings.Fields(parents), t.id)
	above, _ := c.String(b.claim("ancestors"))
	t.ancestors = strings.Fields(above)
	if t.bind.JKT, t.bind.X5T, err = c.Confirmation(); err != nil {
		return nil, E(Unauthenticated, "The token has no usable confirmation method.", err)
	}
	if c.Has("act") {
		if err := c.DecodeClaim("act", &t.act); err != nil {
			return nil, E(Unauthenticated, "The token is malformed.", err)
		}
	}
	// Tokens for the API carry roles in scope, which are no scopes of a provider.
	if scope, _ := c.String("scope"); strings.Contains(scope, ":") {
		if t.scopes, err = scopes.ParseSet(scope); err != nil {
			return nil, E(Unauthenticated, "The token is malformed.", err)
		}
	} else {
		t.roles = rolesOf(scope)
	}
	return t, nil
}

// boundTo refuses a caller that does not hold the key of the token (RFC 9449
// section 7.1, RFC 8705 section 3).
func (t *ownToken) boundTo(p Possession) error {
	switch {
	case t.bind.JKT != "" && (p.Proof == nil || p.Proof.JKT != t.bind.JKT):
		return E(Unauthenticated, "The token is bound to another key than the one that was proved.", nil)
	case t.bind.X5T != "" && p.X5T != t.bind.X5T:
		return E(Unauthenticated, "The token is bound to another client certificate.", nil)
	}
	return nil
}

// aliveToken is alive for a token, and for the tasks above its own: one of them that
// is over refuses it before its own task is closed too.
func (b *Broker) aliveToken(ctx context.Context, t *ownToken) (bool, error) {
	if alive, err := b.alive(ctx, t.taskID, t.lineage...); err != nil || !alive {
		return false, err
	}
	for _, id := range t.ancestors {
		up, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: id})
		if errors.Is(err, ErrNotFound) || err == nil && b.over(up) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// alive asks the ledger whether a credential and all that it was narrowed from
// live. It is true only when the ledger is complete, knows them, and their task is
// open; an error means doubt.
func (b *Broker) alive(ctx context.Context, taskID string, leaseIDs ...string) (bool, error) {
	if b.down.Load() {
		return false, ErrLost
	}
	if b.tombs.has(taskID, b.now()) {
		return false, nil
	}
	for _, id := range leaseIDs {
		if b.tombs.has(id, b.now()) {
			return false, nil
		}
		if alive, err := b.cfg.Ledger.Status(ctx, taskID, id, b.now()); err != nil || !alive {
			return false, err
		}
	}
	return true, nil
}
