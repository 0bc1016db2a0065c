package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/scopes"
)

// Names of claims, after the issuer: the task id; the ancestors of a delegated
// task; and the leases that the token was narrowed from. Lists are separated by
// spaces.
const (
	TaskClaim      = "/claims/task_id"
	AncestorsClaim = "/claims/ancestors"
	ParentsClaim   = "/claims/parents"
)

// Token is a verified access token.
type Token struct {
	LeaseID   string          // jti: its id in ebb's audit log
	TaskID    string          // it ends with this task
	Ancestors []string        // and with each of these tasks, which delegated to it
	Parents   []string        // and with each of these leases, from which it was narrowed
	Subject   string          // sub: the owner of the task
	ClientID  string          // the sandbox that holds it
	Scope     scopes.Set      // what it permits
	JKT       string          // bound to this DPoP key, or ""
	X5T       string          // bound to this client certificate, or ""
	Txn       string          // joins request, approval, token and use; "" without one
	IssuedAt  time.Time       //
	ExpiresAt time.Time       //
	Claims    json.RawMessage // all claims; read-only
}

var errClaims = errors.New("a required claim is missing or malformed")

// token verifies an access token, or returns the cached result. The result
// depends on the token, the keys and constants only, and not on the request.
func (v *Verifier) token(ctx context.Context, raw string, now time.Time) (*Token, *Error) {
	id := keyOf(raw)
	gen := v.keys.generation()
	if t := v.cache.get(id, gen, now); t != nil {
		return t, nil
	}
	u, err := jose.Parse(raw, v.profile.Limits)
	if err != nil {
		return nil, tokenError(err)
	}
	c, err := u.Verify(v.profile, v.keys.find(ctx, now), now)
	if err != nil {
		return nil, tokenError(err)
	}
	t, err := v.claims(c)
	if err != nil {
		return nil, refuse(InvalidToken, "The access token lacks a claim that it must have.", err)
	}
	// The leeway applies to times in the future. No token is accepted after
	// exp.
	if !now.Before(t.ExpiresAt) {
		return nil, refuse(InvalidToken, "The access token has expired.", nil)
	}
	v.cache.put(id, gen, t)
	return t, nil
}

// claims requires all claims of RFC 9068 section 2.2, exactly one confirmation
// method (RFC 7800), and the task, which the revocation feed refers to.
func (v *Verifier) claims(c *jose.Claims) (*Token, error) {
	t := &Token{
		LeaseID: c.ID, Subject: c.Subject, ClientID: c.ClientID, IssuedAt: c.IssuedAt, ExpiresAt: c.Expiry,
		Claims: bytes.Clone(c.Payload()),
	}
	var err error
	if t.JKT, t.X5T, err = c.Confirmation(); err != nil {
		return nil, err
	}
	t.TaskID, _ = c.String(v.cfg.Issuer + TaskClaim)
	t.Txn, _ = c.String("txn")
	parents, ok := c.String(v.cfg.Issuer + ParentsClaim)
	if !ok && c.Has(v.cfg.Issuer+ParentsClaim) {
		return nil, errClaims
	}
	t.Parents = strings.Fields(parents)
	ancestors, ok := c.String(v.cfg.Issuer + AncestorsClaim)
	if !ok && c.Has(v.cfg.Issuer+AncestorsClaim) {
		return nil, errClaims
	}
	t.Ancestors = strings.Fields(ancestors)
	scope, ok := c.String("scope")
	if !ok && c.Has("scope") {
		return nil, errClaims
	}
	if t.Scope, err = scopes.ParseSet(scope); err != nil {
		return nil, err
	}
	for _, s := range []string{t.LeaseID, t.Subject, t.ClientID, t.TaskID, t.JKT + t.X5T} {
		if s == "" {
			return nil, errClaims
		}
	}
	if t.IssuedAt.IsZero() || t.ExpiresAt.IsZero() {
		return nil, errClaims
	}
	return t, nil
}

// tokenError maps every validation failure to invalid_token (RFC 9068 section
// 4), and missing keys to 503.
func tokenError(err error) *Error {
	if e, ok := errors.AsType[*jose.Error](err); ok {
		return refuse(InvalidToken, sentence(e.Public), err)
	}
	if errors.Is(err, jose.ErrToken) {
		return refuse(InvalidToken, "The access token was refused.", err)
	}
	return doubt("The keys of the issuer are not available at the moment. Try again in 2 s.", err)
}

func sentence(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:] + "."
}
