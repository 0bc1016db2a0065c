package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// PrincipalToken issues an access token for the API (client_credentials with
// private_key_jwt). Only a pure resource server may take it unbound.
// roles narrow the token to some of the principal's; none means all.
func (b *Broker) PrincipalToken(ctx context.Context, assertion string, p Possession, clientID string, roles ...Role) (Token, error) {
	who, err := b.AuthenticateAssertion(ctx, assertion, clientID)
	if err != nil {
		return Token{}, err
	}
	return b.apiToken(ctx, who, roles, p, "private_key_jwt", attest.Identity{AuthAt: b.now()})
}

// PrincipalExchange issues the same for a person's ID token (RFC 8693). It lives no
// longer than the ID token does (I4).
func (b *Broker) PrincipalExchange(ctx context.Context, idToken string, p Possession, roles ...Role) (Token, error) {
	who, id, err := b.personOf(ctx, idToken, p)
	if err != nil {
		return Token{}, err
	}
	if approves := len(roles) == 0 && who.Has(RoleApprover) || slices.Contains(roles, RoleApprover); approves {
		if err := b.present(id); err != nil {
			return Token{}, err
		}
		id.NotAfter = earliest(id.AuthAt.Add(FreshFor), id.NotAfter)
	}
	return b.apiToken(ctx, who, roles, p, "id_token", id)
}

// FreshFor is how old a sign-in may be with which somebody approves.
const FreshFor = 10 * time.Minute

// present refuses an ID token that does not show what approving takes in the console:
// a sign-in of the last ten minutes (auth_time), as strong as configured (acr).
func (b *Broker) present(id attest.Identity) error {
	now := b.now()
	switch {
	case id.AuthAt.IsZero():
		return E(Invalid, "The subject token does not say when you signed in (auth_time), which the role approver needs. Ask the identity provider's administrator for that claim, or name other roles in scope.", nil)
	case !now.Before(id.AuthAt.Add(FreshFor)), id.AuthAt.After(now.Add(skew)):
		return E(Invalid, "The subject token is not of a sign-in of the last 10 minutes (auth_time), which the role approver needs. Sign in again (max_age=0), or name other roles in scope.", nil)
	case len(b.cfg.ACRValues) > 0 && !slices.Contains(b.cfg.ACRValues, id.ACR):
		return E(Invalid, "The sign-in of the subject token was not as strong as the role approver needs (acr). Sign in again with one of console.oidc.acr_values, or name other roles in scope.", nil)
	}
	return nil
}

// personOf asks every attestor that a principal is matched by. Which one issued
// the token is never read from the token itself. Nothing is kept of a token that
// is nobody's here.
func (b *Broker) personOf(ctx context.Context, idToken string, p Possession) (Principal, attest.Identity, error) {
	none := attest.Identity{}
	asked := map[string]bool{}
	for _, cfg := range b.cfg.Principals {
		if cfg.Match == nil || asked[cfg.Match.Attestor] {
			continue
		}
		asked[cfg.Match.Attestor] = true
		a, known := b.attestor(cfg.Match.Attestor)
		if !known {
			return Principal{}, none, unavailable(fmt.Errorf("principal %q: no attestor %q", cfg.ID, cfg.Match.Attestor))
		}
		id, err := a.Attest(b.bounded(ctx, cfg.Match.Attestor, "", p, true), attest.Evidence{Attestor: cfg.Match.Attestor, Document: []byte(idToken), Key: p.Key})
		if errors.Is(err, attest.ErrRejected) {
			continue
		}
		if e, ours := errors.AsType[*Error](err); ours {
			return Principal{}, none, e
		}
		if err != nil {
			return Principal{}, none, unavailable(err)
		}
		if id.Key != "" && id.Key != p.Key.JKT {
			continue // bound to another key
		}
		is := slices.DeleteFunc(slices.Clone(b.cfg.Principals), func(c PrincipalConfig) bool {
			return c.Match == nil || c.Match.Attestor != id.Attestor || attest.SelectorMatch(c.Match.Selectors, id) != nil
		})
		switch len(is) {
		case 0:
			continue
		case 1:
			err := b.claimEvidence(ctx, id, p.Key.JKT)
			if err != nil && AsError(err).Kind == Unavailable {
				return is[0].Doubtful(err), id, nil
			}
			return is[0].Principal, id, err
		}
		return Principal{}, none, E(Invalid, "The subject token matches more than one principal. Ask the operator.", nil)
	}
	return Principal{}, none, E(Invalid, "The subject token is not of a person known here.", nil)
}

// attestor is one that is configured. One that recognises principals judges their ID
// tokens and nothing else.
func (b *Broker) attestor(name string) (attest.Attestor, bool) {
	a, known := b.cfg.Attestors[name]
	if p, personal := a.(attest.Personal); personal && b.people[name] {
		return p.ForPeople(), true
	}
	return a, known
}

// apiToken issues a token for the API, until the evidence for it ends, if it does. While
// a store does not answer it is one that only ends things, which waits for no store (I6).
func (b *Broker) apiToken(ctx context.Context, who Principal, asked []Role, p Possession, method string, id attest.Identity) (Token, error) {
	for _, r := range asked {
		if !who.Has(r) {
			return Token{}, E(InvalidScope, "The scope names a role that you do not have.", nil)
		}
	}
	if len(asked) > 0 {
		who.Roles = asked
	}
	doubt := who.doubt
	if doubt == nil {
		doubt = b.steadyClock()
	}
	if doubt == nil {
		err := b.claimProof(ctx, p)
		if err != nil && AsError(err).Kind != Unavailable {
			return Token{}, err
		}
		doubt = err
	}
	bind := p.Binding()
	unbound := bind == (provider.Binding{})
	if unbound && !slices.Equal(who.Roles, []Role{RoleResourceServer}) {
		return Token{}, E(InvalidProof, "Send a DPoP proof: tokens for this principal are bound to a key.", nil)
	}
	now := b.now()
	exp := earliest(now.Add(b.cfg.Limits.PrincipalTTL), id.NotAfter).Truncate(time.Second)
	if exp.Sub(now) < time.Second {
		return Token{}, E(Invalid, "Less than a second is left of the subject token.", nil)
	}
	if doubt == nil {
		t, err := b.signAPI(who, bind, id, now, exp)
		if err != nil {
			return Token{}, err
		}
		record, cancel := context.WithTimeout(ctx, proofTime)
		defer cancel()
		err = b.cfg.Journal.Append(record, Record{Entries: []audit.Entry{
			b.entry(audit.PrincipalAuthenticated, who.ID, map[string]any{"method": method, "cnf": bind, "roles": who.Roles, "exp": exp, "evidence": used(id, p.Key.JKT)}),
		}})
		if err == nil {
			return t, nil
		}
		doubt = unavailable(err)
	}
	if unbound || !who.mayEnd() {
		return Token{}, AsError(doubt)
	}
	b.cfg.Logger.WarnContext(ctx, "a token that only ends things was issued: a store does not answer", "actor", who.ID, "error", doubt)
	who.Roles = append([]Role{roleEnds}, who.Roles...)
	return b.signAPI(who, bind, id, now, earliest(exp, now.Add(endsTTL)))
}

func (b *Broker) signAPI(who Principal, bind provider.Binding, id attest.Identity, now, exp time.Time) (Token, error) {
	exp = exp.Truncate(time.Second)
	claims := map[string]any{
		"iss": b.cfg.Issuer, "sub": who.ID, "client_id": who.ID, "aud": b.cfg.Issuer + apiPath,
		"iat": now.Unix(), "exp": exp.Unix(), "jti": newID("mgt_"), "scope": scopeOf(who.Roles),
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
	signed, err := b.sign("at+jwt", claims)
	if err != nil {
		return Token{}, unavailable(err)
	}
	return Token{Token: provider.NewSecret(signed), Type: tokenType, ExpiresIn: Seconds(exp.Unix() - now.Unix()), API: scopeOf(who.Roles)}, nil
}

// scopeOf writes roles as the scope of a token for the API; rolesOf reads them.
func scopeOf(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, " ")
}

func rolesOf(scope string) []Role {
	var roles []Role
	for name := range strings.FieldsSeq(scope) {
		roles = append(roles, Role(name))
	}
	return roles
}

// AuthenticateToken authenticates a caller of the API by its access token. The
// principal must still be configured: its roles are those of the token that it
// still has.
func (b *Broker) AuthenticateToken(ctx context.Context, token string, p Possession) (Principal, error) {
	t, err := b.verifyOwn(token, b.cfg.Issuer+apiPath)
	if err != nil {
		return Principal{}, err
	}
	cfg, known := b.principals[t.sub]
	if !known {
		return Principal{}, E(Unauthenticated, "This principal is no longer known here.", nil)
	}
	if b.tombs.has(t.id, b.now()) {
		return Principal{}, E(Unauthenticated, "The token is revoked.", nil)
	}
	if err := t.boundTo(p); err != nil {
		return Principal{}, err
	}
	who := cfg.Principal
	who.AuthAt, who.Until = t.authAt, t.exp
	who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r Role) bool { return !slices.Contains(t.roles, r) })
	if t.bind == (provider.Binding{}) && !slices.Equal(who.Roles, []Role{RoleResourceServer}) {
		return Principal{}, E(Unauthenticated, "An unbound token is not accepted for this principal.", nil)
	}
	if slices.Contains(t.roles, roleEnds) {
		return who.Doubtful(errEndsOnly), nil
	}
	err = b.claimProof(ctx, p)
	if e, is := errors.AsType[*Error](err); is && e.Kind == Unavailable {
		who.doubt = e.Cause
		return who, nil
	}
	if err != nil {
		return Principal{}, err
	}
	return who, nil
}

// apiPath is the broker's own protected resource, below the issuer.
const apiPath = "/v1"
