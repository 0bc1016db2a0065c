package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
)

// Claim returns the collision-resistant name of a private claim (RFC 7519 section 4.2).
func (au *Authenticator) Claim(name string) string { return au.issuerURL + "/claims/" + name }

// sign signs claims with the active key.
func (au *Authenticator) sign(typ string, claims any) (string, error) {
	signer, kid, _, err := au.keys.Signer(au.clock.Now())
	if err != nil {
		return "", err
	}
	return jose.Sign(signer, jose.SignHeader{Type: typ, KID: kid}, claims)
}

// VerifyOwn verifies an access token of this broker for one audience ("" = any), as of now. The signature
// check is cached by the hash of the token, for at most a minute and never past its expiry.
func (au *Authenticator) VerifyOwn(token, audience string, now time.Time) (*kernel.OwnToken, error) {
	sum := sha256.Sum256([]byte(token))
	t, hit := au.verified.Get(sum)
	if !hit {
		var err error
		if t, err = au.parseOwn(token, now); err != nil {
			return nil, err
		}
		au.verified.Add(sum, t)
	}
	if !now.Before(t.Exp) {
		return nil, broker.E(broker.Unauthenticated, "The token has expired.", nil)
	}
	if audience != "" && t.Aud != audience {
		return nil, broker.E(broker.Unauthenticated, "The token is for another resource.", nil)
	}
	return t, nil
}

// replicaSkew is the accepted difference between the clocks of replicas: a token that another
// replica has just issued may have an iat in the future. VerifyOwn checks the expiry.
const replicaSkew = 10 * time.Second

func (au *Authenticator) parseOwn(token string, now time.Time) (*kernel.OwnToken, error) {
	c, err := jose.Verify(token, jose.Profile{
		Types: []string{"at+jwt"}, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256},
		Issuer: au.issuerURL, AnyAudience: true, MaxLifetime: max(au.limits.MaxTTL, au.limits.PrincipalTTL) + time.Minute,
		Leeway: replicaSkew,
	}, au.keys.KeySource(now), now)
	if err != nil {
		if !errors.Is(err, jose.ErrToken) {
			return nil, broker.StoreError(err)
		}
		return nil, broker.E(broker.Unauthenticated, broker.PublicOf(err, "The token was refused."), err)
	}
	t := &kernel.OwnToken{
		ID: c.ID, Sub: c.Subject, ClientID: c.ClientID, Exp: c.Expiry,
		Payload: append(json.RawMessage(nil), c.Payload()...),
	}
	if len(c.Audience) == 1 {
		t.Aud = c.Audience[0]
	}
	t.TaskID, _ = c.String(au.Claim("task_id"))
	t.Txn, _ = c.String("txn")
	if c.Has("auth_time") {
		var at int64
		if err := c.DecodeClaim("auth_time", &at); err != nil {
			return nil, broker.E(broker.Unauthenticated, "The token is malformed.", err)
		}
		t.AuthAt = time.Unix(at, 0)
	}
	parents, _ := c.String(au.Claim("parents"))
	t.Lineage = append(strings.Fields(parents), t.ID)
	above, _ := c.String(au.Claim("ancestors"))
	t.Ancestors = strings.Fields(above)
	if t.Bind.JKT, t.Bind.X5T, err = c.Confirmation(); err != nil {
		return nil, broker.E(broker.Unauthenticated, "The token has no usable confirmation method.", err)
	}
	if c.Has("act") {
		if err := c.DecodeClaim("act", &t.Act); err != nil {
			return nil, broker.E(broker.Unauthenticated, "The token is malformed.", err)
		}
	}
	// Tokens for the API have roles in the claim scope, not scopes of a provider.
	if scope, _ := c.String("scope"); strings.Contains(scope, ":") {
		if t.Scopes, err = scopes.ParseSet(scope); err != nil {
			return nil, broker.E(broker.Unauthenticated, "The token is malformed.", err)
		}
	} else {
		t.Roles = rolesOf(scope)
	}
	return t, nil
}

// AliveToken is Alive for a token, and also checks the ancestors of its task: one that has
// ended refuses the token before the token's own task is closed.
func (au *Authenticator) AliveToken(ctx context.Context, t *kernel.OwnToken) (bool, error) {
	if alive, err := au.Alive(ctx, t.TaskID, t.Lineage...); err != nil || !alive {
		return false, err
	}
	for _, id := range t.Ancestors {
		up, err := au.liveStore.Admit(ctx, broker.Admission{TaskID: id})
		if errors.Is(err, broker.ErrNotFound) || err == nil && au.admission.Over(up) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Alive asks the live store whether a credential and all its parents are live. It is true only
// when the live store is complete, knows them, and their task is open. An error means that it
// is unknown.
func (au *Authenticator) Alive(ctx context.Context, taskID string, leaseIDs ...string) (bool, error) {
	if au.live.Incomplete.Load() {
		return false, broker.ErrLost
	}
	if au.revoked.Has(taskID, au.clock.Now()) {
		return false, nil
	}
	for _, id := range leaseIDs {
		if au.revoked.Has(id, au.clock.Now()) {
			return false, nil
		}
		if alive, err := au.liveStore.Status(ctx, taskID, id, au.clock.Now()); err != nil || !alive {
			return false, err
		}
	}
	return true, nil
}
