package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// apiPath is the broker's own protected resource, below the issuer.
const apiPath = "/v1"

// assertionLife is the longest a client assertion may live (RFC 7523 section 3:
// "may be rejected if exp is unreasonably far in the future").
const assertionLife = 5 * time.Minute

// skew is how far a client's clock may be off.
const skew = 30 * time.Second

// PrincipalConfig is a principal as configured: who it is and how it proves that.
type PrincipalConfig struct {
	Principal
	Keys  []jose.Key // for private_key_jwt
	Match *Match     // or an ID token that an attestor accepts
}

// Match recognises a person by an ID token.
type Match struct {
	Attestor  string
	Selectors map[string]string // every one must be present and equal
}

// Has reports whether p has any of the roles.
func (p Principal) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// allow refuses principals without one of the roles. A principal whose proof
// could not be checked for replay, because the ledger is gone, may only end
// things: replaying an end does no harm, and ending must never be blocked (I6).
func allow(who Principal, ends bool, roles ...Role) error {
	if who.ID == "" {
		return E(Unauthenticated, "Authenticate first.", nil)
	}
	if !who.Has(roles...) {
		return E(Forbidden, "Your principal has none of the roles this needs. Ask the operator.", nil)
	}
	if who.doubt != nil && !ends {
		return unavailable(who.doubt)
	}
	return nil
}

// unavailable is the one answer to every store or provider that cannot judge.
func unavailable(cause error) *Error {
	return &Error{Kind: Unavailable, Public: "A part of the broker is unavailable. Nothing was issued; try again shortly.", Cause: cause, RetryAfter: 5 * time.Second}
}

// AuthenticateAssertion authenticates a principal by private_key_jwt (RFC 7523
// section 3, RFC 7523bis: aud is the issuer alone). clientID, when not empty,
// must be the assertion's subject (RFC 7521 section 4.2).
func (b *Broker) AuthenticateAssertion(ctx context.Context, assertion, clientID string) (Principal, error) {
	p, err := b.assertionPrincipal(ctx, assertion, clientID)
	if e, is := errors.AsType[*Error](err); is && e.Kind == Unauthenticated {
		b.note(ctx, b.entry(audit.PrincipalRefused, unknown, map[string]string{"why": e.Public}))
	}
	return p, err
}

func (b *Broker) assertionPrincipal(ctx context.Context, assertion, clientID string) (Principal, error) {
	bad := func(public string, cause error) (Principal, error) {
		return Principal{}, E(Unauthenticated, public, cause)
	}
	unverified, err := jose.Parse(assertion, jose.Limits{})
	if err != nil {
		return bad("The client assertion is not an acceptable JWT.", err)
	}
	sub := unverified.Claims().Subject
	cfg, known := b.principals[sub]
	if !known || len(cfg.Keys) == 0 {
		return bad("The client is not known here or its key is not registered.", nil)
	}
	if clientID != "" && clientID != sub {
		return bad("client_id differs from the subject of the client assertion.", nil)
	}
	set, err := jose.NewKeySet(cfg.Keys...)
	if err != nil {
		return bad("The keys of this client are configured twice.", err)
	}
	if err := b.verifyAssertion(ctx, assertion, sub, set.Key); err != nil {
		return Principal{}, err
	}
	return cfg.Principal, nil
}

// verifyAssertion is the one check of client assertions, of principals and of
// sandboxes: iss = sub = client, aud the issuer alone, short-lived, used once.
// What it claims is remembered for minutes, so the client's rates come first.
func (b *Broker) verifyAssertion(ctx context.Context, assertion, sub string, key jose.KeySource, rates ...Rate) error {
	c, err := jose.Verify(assertion, jose.Profile{
		Types: []string{"JWT", "client-authentication+jwt"}, AllowNoType: true,
		Algs:   []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256, jose.PS256},
		Issuer: sub, Audience: b.cfg.Issuer, AudienceSole: true,
		MaxLifetime: assertionLife + skew, Leeway: skew,
	}, key, b.now())
	if err != nil {
		if !errors.Is(err, jose.ErrToken) {
			return unavailable(err)
		}
		return E(Unauthenticated, publicOf(err, "The client assertion was refused."), err)
	}
	if c.Subject != sub {
		return E(Unauthenticated, "iss and sub of the client assertion must both be the client.", nil)
	}
	if c.ID == "" {
		return E(Unauthenticated, "The client assertion needs a jti.", nil)
	}
	made := c.IssuedAt
	if made.IsZero() { // no later than this
		made = c.Expiry.Add(-assertionLife - skew)
	}
	if b.reckon(); made.Unix() < b.since.Load() {
		return E(Unauthenticated, "The client assertion is older than the memory of the broker, which has just started. Sign a new one.", nil)
	}
	if len(rates) > 0 {
		_, err := b.cfg.Ledger.Admit(ctx, Admission{Rates: rates})
		if r, ok := errors.AsType[*RateError](err); ok {
			return tooOften(r)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	_, err = b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{
		Key: "ca:" + hashOf(sub, c.ID), Value: "1", Until: c.Expiry.Add(skew),
	}}})
	switch {
	case errors.Is(err, ErrClaimed):
		return E(Unauthenticated, "The client assertion was used before. Sign a new one for each request.", err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// publicOf takes the public sentence from an error of jose or attest.
func publicOf(err error, otherwise string) string {
	if e, ok := errors.AsType[*jose.Error](err); ok {
		return sentence(e.Public)
	}
	if e, ok := errors.AsType[*attest.Rejection](err); ok {
		return sentence(e.Public)
	}
	return otherwise
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// PrincipalToken issues an access token for the API (client_credentials with
// private_key_jwt). Only a pure resource server may take it unbound.
// roles narrow the token to some of the principal's; none means all.
func (b *Broker) PrincipalToken(ctx context.Context, assertion string, p Possession, clientID string, roles ...Role) (Token, error) {
	who, err := b.AuthenticateAssertion(ctx, assertion, clientID)
	if err != nil {
		return Token{}, err
	}
	return b.apiToken(ctx, who, roles, p, "private_key_jwt", attest.Identity{})
}

// PrincipalExchange issues the same for a person's ID token (RFC 8693). It lives no
// longer than the ID token does (I4).
func (b *Broker) PrincipalExchange(ctx context.Context, idToken string, p Possession, roles ...Role) (Token, error) {
	who, id, err := b.personOf(ctx, idToken, p)
	if err != nil {
		return Token{}, err
	}
	return b.apiToken(ctx, who, roles, p, "id_token", id)
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
		a, known := b.cfg.Attestors[cfg.Match.Attestor]
		if !known {
			return Principal{}, none, unavailable(fmt.Errorf("principal %q: no attestor %q", cfg.ID, cfg.Match.Attestor))
		}
		id, err := a.Attest(ctx, attest.Evidence{Attestor: cfg.Match.Attestor, Document: []byte(idToken), Key: p.Key})
		if errors.Is(err, attest.ErrRejected) {
			continue
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
			return is[0].Principal, id, b.claimEvidence(ctx, id, p.Key.JKT)
		}
		return Principal{}, none, E(Invalid, "The subject token matches more than one principal. Ask the operator.", nil)
	}
	return Principal{}, none, E(Invalid, "The subject token is not of a person known here.", nil)
}

// apiToken issues a token for the API, until the evidence for it ends, if it does.
func (b *Broker) apiToken(ctx context.Context, who Principal, asked []Role, p Possession, method string, id attest.Identity) (Token, error) {
	for _, r := range asked {
		if !who.Has(r) {
			return Token{}, E(InvalidScope, "The scope names a role that you do not have.", nil)
		}
	}
	if len(asked) > 0 {
		who.Roles = asked
	}
	if err := b.claimProof(ctx, p); err != nil {
		return Token{}, err
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
	claims := map[string]any{
		"iss": b.cfg.Issuer, "sub": who.ID, "client_id": who.ID, "aud": b.cfg.Issuer + apiPath,
		"iat": now.Unix(), "exp": exp.Unix(), "jti": newID("mgt_"), "scope": scopeOf(who.Roles),
	}
	tokenType := "Bearer"
	if !unbound {
		claims["cnf"] = bind
		if bind.JKT != "" {
			tokenType = "DPoP"
		}
	}
	signed, err := b.sign("at+jwt", claims)
	if err != nil {
		return Token{}, unavailable(err)
	}
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{
		b.entry(audit.PrincipalAuthenticated, who.ID, map[string]any{"method": method, "cnf": bind, "roles": who.Roles, "exp": exp, "evidence": used(id, p.Key.JKT)}),
	}}); err != nil {
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
	who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r Role) bool { return !slices.Contains(t.roles, r) })
	if t.bind == (provider.Binding{}) && !slices.Equal(who.Roles, []Role{RoleResourceServer}) {
		return Principal{}, E(Unauthenticated, "An unbound token is not accepted for this principal.", nil)
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
