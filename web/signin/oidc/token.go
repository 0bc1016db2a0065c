package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/signin"
)

// claims are the claims of an ID token, completed by the user info.
type claims map[string]json.RawMessage

// standard are the claims that are validated before the person is built.
type standard struct {
	AZP      string `json:"azp"`
	AuthTime *int64 `json:"auth_time"`
	ACR      string `json:"acr"`
}

// judge validates a token response and returns the person (OpenID Connect Core
// sections 3.1.3.7 and 3.1.2.1).
func (o *OIDC) judge(ctx context.Context, s *source, t *oauth2.Token, a attempt) (signin.Person, error) {
	var none signin.Person
	raw, ok := t.Extra("id_token").(string)
	if !ok || len(raw) > maxToken {
		return none, errToken(errors.New("there is no id_token, or one that is too long"))
	}
	keys := &keySet{keys: s.keys}
	id, err := s.verifier(keys).Verify(ctx, raw)
	switch {
	case keys.down != nil:
		return none, errDown(keys.down)
	case err != nil:
		return none, errToken(err)
	}
	var std standard
	var all claims
	if err := errors.Join(id.Claims(&std), id.Claims(&all)); err != nil {
		return none, errToken(err)
	}
	if err := o.strict(id, std, a); err != nil {
		return none, err
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(t.AccessToken); err != nil {
			return none, errToken(err)
		}
	}
	if err := o.more(ctx, s, t, id.Subject, all); err != nil {
		return none, err
	}
	p, err := o.person(id.Subject, all)
	if err != nil {
		return none, err
	}
	p.ACR, p.GroupsAt, p.Purpose = std.ACR, id.IssuedAt, a.For
	if std.AuthTime != nil {
		p.AuthAt = time.Unix(*std.AuthTime, 0)
	}
	return p, nil
}

// strict makes the checks that the library leaves to its callers.
func (o *OIDC) strict(id *oidc.IDToken, std standard, a attempt) error {
	now := o.cfg.Now()
	switch {
	case id.Issuer != o.cfg.Issuer: // the library accepts another spelling for one provider
		return errToken(errors.New("iss is not the issuer"))
	case id.Nonce != o.derive("nonce", a.ID):
		return errToken(errors.New("the nonce belongs to another sign-in"))
	case len(id.Audience) != 1:
		return errToken(errors.New("aud contains other clients, which ebb does not trust"))
	case std.AZP != "" && std.AZP != o.cfg.ClientID:
		return errToken(errors.New("azp is another client"))
	case id.IssuedAt.Before(a.At.Add(-skew)), id.IssuedAt.After(now.Add(skew)):
		return errToken(errors.New("iat is before this sign-in or in the future"))
	case id.Subject == "" || len(id.Subject) > 255:
		return errToken(errors.New("sub is empty or too long"))
	case std.AuthTime == nil && !a.Again:
		return nil
	case std.AuthTime == nil:
		return broker.E(broker.Forbidden, "The identity provider did not send the time at which you signed in (auth_time), so you cannot approve anything. Its administrator can add that claim to the tokens for this ebb.", nil)
	}
	at := time.Unix(*std.AuthTime, 0)
	switch {
	case at.After(now.Add(skew)):
		return errToken(errors.New("auth_time is in the future"))
	case a.Again && at.Before(a.At.Add(-skew)):
		return broker.E(broker.Forbidden, "The identity provider did not make you sign in again, although ebb requested it (max_age). Sign out there, or ask its administrator.", nil)
	case a.Again && !o.Strong(std.ACR):
		return broker.E(broker.Forbidden, "The identity provider did not use the strong authentication that approvals need here (acr). Set up your security key or passkey there, or ask its administrator.", nil)
	case at.Before(now.Add(-maxAge - skew)):
		return broker.E(broker.Forbidden, "You signed in at the identity provider more than 8 hours ago. Sign out there, then sign in again.", nil)
	}
	return nil
}

// more adds claims of the user info that the token lacks (OpenID Connect Core
// section 5.3).
func (o *OIDC) more(ctx context.Context, s *source, t *oauth2.Token, sub string, all claims) error {
	missing := false
	for _, name := range []string{o.cfg.GroupsClaim, o.cfg.NameClaim, o.cfg.SubjectClaim} {
		missing = missing || all[name] == nil
	}
	if !missing || s.UserInfoEndpoint() == "" || overage(all, o.cfg.GroupsClaim) {
		return nil
	}
	info, err := s.UserInfo(oidc.ClientContext(ctx, o.client), oauth2.StaticTokenSource(t))
	if err != nil {
		return errDown(errors.New("the user info cannot be read"))
	}
	var says claims
	if err := info.Claims(&says); err != nil {
		return errToken(err)
	}
	if info.Subject != sub {
		return errToken(errors.New("the user info has another sub"))
	}
	for name, value := range says {
		if all[name] == nil {
			all[name] = value
		}
	}
	return nil
}

func errToken(cause error) error {
	return broker.E(broker.Unauthenticated, "The identity provider's token is not valid. Start again; if it persists, the operator finds the cause in ebb's log.", fmt.Errorf("id token: %w", cause))
}
