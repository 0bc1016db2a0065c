package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Accounts knows the configured principals: it signs them in, issues their API tokens and
// records their sessions and passkeys.
type Accounts struct {
	acrValues  []string
	attestors  map[string]attest.Attestor
	issuerURL  string
	store      broker.Store
	liveStore  broker.LiveStore
	limits     broker.Limits
	logger     *slog.Logger
	configured []broker.PrincipalConfig
	live       *kernel.LiveState
	people     map[string]bool
	principals map[string]*broker.PrincipalConfig
	revoked    *kernel.RevokedSet

	admission   *kernel.Admitter
	callers     *Authenticator
	clock       *kernel.Timekeeper
	emergencies emergencies
	evidence    *Evidence
	log         *kernel.Recorder
}

// PrincipalToken issues an access token for the API (client_credentials with private_key_jwt).
// Only a principal whose single role is resource_server may have it unbound. roles narrow the
// token to some of the principal's; none means all.
func (ac *Accounts) PrincipalToken(ctx context.Context, assertion string, p broker.Possession, clientID string, roles ...broker.Role) (broker.Token, error) {
	who, err := ac.callers.AuthenticateAssertion(ctx, assertion, clientID, p)
	if err != nil {
		return broker.Token{}, err
	}
	return ac.apiToken(ctx, who, roles, p, "private_key_jwt", attest.Identity{AuthAt: ac.clock.Now()})
}

// PrincipalExchange issues such a token for a person's ID token (RFC 8693). It expires no later
// than the ID token (I4).
func (ac *Accounts) PrincipalExchange(ctx context.Context, idToken string, p broker.Possession, roles ...broker.Role) (broker.Token, error) {
	who, id, err := ac.personOf(ctx, idToken, p)
	if err != nil {
		return broker.Token{}, err
	}
	if approves := len(roles) == 0 && who.Has(broker.RoleApprover) || slices.Contains(roles, broker.RoleApprover); approves {
		if err := ac.present(id); err != nil {
			return broker.Token{}, err
		}
		id.NotAfter = broker.Earliest(id.AuthAt.Add(FreshFor), id.NotAfter)
	}
	return ac.apiToken(ctx, who, roles, p, "id_token", id)
}

// FreshFor is the largest age of a sign-in for the role approver.
const FreshFor = 10 * time.Minute

// present refuses an ID token without the proof that approving in the console requires: a
// sign-in of the last ten minutes (auth_time), as strong as configured (acr).
func (ac *Accounts) present(id attest.Identity) error {
	now := ac.clock.Now()
	switch {
	case id.AuthAt.IsZero():
		return broker.E(broker.Invalid, "The subject token does not say when you signed in (auth_time), which the role approver needs. Ask the identity provider's administrator for that claim, or name other roles in scope.", nil)
	case !now.Before(id.AuthAt.Add(FreshFor)), id.AuthAt.After(now.Add(broker.Skew)):
		return broker.E(broker.Invalid, "The subject token is not of a sign-in of the last 10 minutes (auth_time), which the role approver needs. Sign in again (max_age=0), or name other roles in scope.", nil)
	case len(ac.acrValues) > 0 && !slices.Contains(ac.acrValues, id.ACR):
		return broker.E(broker.Invalid, "The sign-in of the subject token was not as strong as the role approver needs (acr). Sign in again with one of console.oidc.acr_values, or name other roles in scope.", nil)
	}
	return nil
}

// personOf asks every attestor that recognises a principal. The issuer is never read from the
// unverified token. Nothing is stored about a token of an unknown person.
func (ac *Accounts) personOf(ctx context.Context, idToken string, p broker.Possession) (broker.Principal, attest.Identity, error) {
	none := attest.Identity{}
	asked := map[string]bool{}
	for _, cfg := range ac.configured {
		if cfg.Match == nil || asked[cfg.Match.Attestor] {
			continue
		}
		asked[cfg.Match.Attestor] = true
		a, known := ac.attestor(cfg.Match.Attestor)
		if !known {
			return broker.Principal{}, none, broker.StoreError(fmt.Errorf("principal %q: no attestor %q", cfg.ID, cfg.Match.Attestor))
		}
		id, err := a.Attest(ac.evidence.bounded(ctx, cfg.Match.Attestor, "", p, true), attest.Evidence{Attestor: cfg.Match.Attestor, Document: []byte(idToken), Key: p.Key})
		if errors.Is(err, attest.ErrRejected) {
			continue
		}
		if e, ours := errors.AsType[*broker.Error](err); ours {
			return broker.Principal{}, none, e
		}
		if err != nil {
			return broker.Principal{}, none, broker.StoreError(err)
		}
		if id.Key != "" && id.Key != p.Key.JKT {
			continue // bound to another key
		}
		is := slices.DeleteFunc(slices.Clone(ac.configured), func(c broker.PrincipalConfig) bool {
			return c.Match == nil || c.Match.Attestor != id.Attestor || attest.SelectorMatch(c.Match.Selectors, id) != nil
		})
		switch len(is) {
		case 0:
			continue
		case 1:
			err := ac.admission.ClaimEvidence(ctx, id, p.Key.JKT)
			if err != nil && broker.AsError(err).Kind == broker.Unavailable {
				return is[0].Doubtful(err), id, nil
			}
			return is[0].Principal, id, err
		}
		return broker.Principal{}, none, broker.E(broker.Invalid, "The subject token matches more than one principal. Ask the operator.", nil)
	}
	return broker.Principal{}, none, broker.E(broker.Invalid, "The subject token is not of a person known here.", nil)
}

// attestor returns a configured attestor. An attestor that recognises principals checks ID
// tokens only.
func (ac *Accounts) attestor(name string) (attest.Attestor, bool) {
	a, known := ac.attestors[name]
	if p, personal := a.(attest.Personal); personal && ac.people[name] {
		return p.ForPeople(), true
	}
	return a, known
}

// apiToken issues a token for the API, which expires with its evidence at the latest. While a
// store does not answer, the token can only end tasks and credentials, and is issued without
// waiting for a store (I6).
func (ac *Accounts) apiToken(ctx context.Context, who broker.Principal, asked []broker.Role, p broker.Possession, method string, id attest.Identity) (broker.Token, error) {
	for _, r := range asked {
		if !who.Has(r) {
			return broker.Token{}, broker.E(broker.InvalidScope, "The scope names a role that you do not have.", nil)
		}
	}
	if len(asked) > 0 {
		who.Roles = asked
	}
	doubt := who.Doubt
	if doubt == nil {
		doubt = ac.clock.SteadyClock()
	}
	if doubt == nil {
		err := ac.admission.ClaimProof(ctx, p)
		if err != nil && broker.AsError(err).Kind != broker.Unavailable {
			return broker.Token{}, err
		}
		doubt = err
	}
	bind := p.Binding()
	unbound := bind == (provider.Binding{})
	if unbound && !slices.Equal(who.Roles, []broker.Role{broker.RoleResourceServer}) {
		return broker.Token{}, broker.E(broker.InvalidProof, "Send a DPoP proof: tokens for this principal are bound to a key.", nil)
	}
	now := ac.clock.Now()
	exp := broker.Earliest(now.Add(ac.limits.PrincipalTTL), id.NotAfter).Truncate(time.Second)
	if exp.Sub(now) < time.Second {
		return broker.Token{}, broker.E(broker.Invalid, "The subject token expires in less than one second. Sign in again.", nil)
	}
	if doubt == nil {
		t, err := ac.signAPI(who, bind, id, now, exp)
		if err != nil {
			return broker.Token{}, err
		}
		err = ac.appendSoon(ctx, ac.log.NewEntry(audit.PrincipalAuthenticated, who.ID, map[string]any{"method": method, "cnf": bind, "roles": who.Roles, "exp": exp, "evidence": kernel.Used(id, p.Key.JKT)}))
		if err == nil {
			return t, nil
		}
		doubt = broker.StoreError(err)
	}
	if unbound || !who.MayEnd() {
		return broker.Token{}, broker.AsError(doubt)
	}
	ac.logger.WarnContext(ctx, "a token that can only end tasks and credentials was issued, because a store does not answer", "actor", who.ID, "error", doubt)
	who.Roles = append([]broker.Role{broker.RoleEnds}, who.Roles...)
	return ac.signAPI(who, bind, id, now, broker.Earliest(exp, now.Add(broker.EndsTTL)))
}

// appendSoon appends an entry and waits at most ProofTime. The database itself may take 10 s
// for a commit that has begun and is not answered, so that the entry may still be written
// later.
func (ac *Accounts) appendSoon(ctx context.Context, e audit.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, kernel.ProofTime)
	defer cancel() // not sooner: a finished append must not look like a cancelled one
	done := make(chan error, 1)
	go func() { done <- ac.store.Append(ctx, broker.Record{Entries: []audit.Entry{e}}) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (ac *Accounts) signAPI(who broker.Principal, bind provider.Binding, id attest.Identity, now, exp time.Time) (broker.Token, error) {
	exp = exp.Truncate(time.Second)
	claims := map[string]any{
		"iss": ac.issuerURL, "sub": who.ID, "client_id": who.ID, "aud": ac.issuerURL + kernel.ApiPath,
		"iat": now.Unix(), "exp": exp.Unix(), "jti": broker.NewID("mgt_"), "scope": scopeOf(who.Roles),
	}
	if !id.AuthAt.IsZero() {
		claims["auth_time"] = id.AuthAt.Unix() // RFC 9068 section 2.2.1
	}
	tokenType := "Bearer"
	if bind != (provider.Binding{}) {
		claims["cnf"] = bind
		if bind.JKT != "" {
			tokenType = "DPoP"
		}
	}
	signed, err := ac.callers.sign("at+jwt", claims)
	if err != nil {
		return broker.Token{}, broker.StoreError(err)
	}
	return broker.Token{Token: secret.New(signed), Type: tokenType, ExpiresIn: broker.Seconds(exp.Unix() - now.Unix()), API: scopeOf(who.Roles)}, nil
}

// scopeOf returns roles as the scope of a token for the API; rolesOf is its inverse.
func scopeOf(roles []broker.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, " ")
}

func rolesOf(scope string) []broker.Role {
	var roles []broker.Role
	for name := range strings.FieldsSeq(scope) {
		roles = append(roles, broker.Role(name))
	}
	return roles
}

// AuthenticateToken authenticates a caller of the API by its access token. The principal must
// still be configured. Its roles are those of the token that it still has.
func (ac *Accounts) AuthenticateToken(ctx context.Context, token string, p broker.Possession) (broker.Principal, error) {
	t, err := ac.callers.VerifyOwn(token, ac.issuerURL+kernel.ApiPath, ac.clock.Now())
	if err != nil {
		return broker.Principal{}, err
	}
	cfg, known := ac.principals[t.Sub]
	if !known {
		return broker.Principal{}, broker.E(broker.Unauthenticated, "This principal is no longer known here.", nil)
	}
	if ac.revoked.Has(t.ID, ac.clock.Now()) {
		return broker.Principal{}, broker.E(broker.Unauthenticated, "The token is revoked.", nil)
	}
	if err := t.BoundTo(p); err != nil {
		return broker.Principal{}, err
	}
	who := cfg.Principal
	who.AuthAt, who.Until = t.AuthAt, t.Exp
	who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r broker.Role) bool { return !slices.Contains(t.Roles, r) })
	if t.Bind == (provider.Binding{}) && !slices.Equal(who.Roles, []broker.Role{broker.RoleResourceServer}) {
		return broker.Principal{}, broker.E(broker.Unauthenticated, "An unbound token is not accepted for this principal.", nil)
	}
	if slices.Contains(t.Roles, broker.RoleEnds) {
		return who.Doubtful(broker.ErrEndsOnly), nil
	}
	err = ac.admission.ClaimProof(ctx, p)
	if e, is := errors.AsType[*broker.Error](err); is && e.Kind == broker.Unavailable {
		who.Doubt = e.Cause
		return who, nil
	}
	if err != nil {
		return broker.Principal{}, err
	}
	return who, nil
}
