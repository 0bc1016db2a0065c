package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/signin"
)

const (
	// maxToken is the largest ID token in bytes. Some tokens list hundreds of groups.
	maxToken = 64 << 10
	// maxMembers is the largest number of members of all JSON objects of an ID
	// token. Keycloak writes an object for each client in which a person has roles.
	maxMembers = 4096
	// longest is the longest lifetime of an ID token. Providers choose hours or
	// days. ebb uses a token once, within a minute of its iat.
	longest = 366 * 24 * time.Hour
)

// profile returns the requirements for an ID token for this client (OpenID Connect Core section 3.1.3.7).
func (o *OIDC) profile(algs []jose.Alg) jose.Profile {
	return jose.Profile{Types: []string{"jwt"}, AllowNoType: true, Algs: algs, Issuer: o.cfg.Issuer, Audience: o.cfg.ClientID, IDToken: true,
		MaxLifetime: longest, Leeway: skew, Limits: jose.Limits{Size: maxToken, Members: maxMembers}}
}

// claims are the claims of an ID token, completed by the user info.
type claims map[string]json.RawMessage

// standard are the claims that are validated before the person is built.
type standard struct {
	Nonce           string `json:"nonce"`
	AuthTime        *int64 `json:"auth_time"`
	ACR             string `json:"acr"`
	AccessTokenHash string `json:"at_hash"`
}

// accessTokenHash returns the at_hash of an access token: the left half of its
// hash, in base64url (OpenID Connect Core section 3.1.3.6). The hash is that of
// the ID token's alg; Ed25519 uses SHA-512 itself.
func accessTokenHash(alg jose.Alg, token string) string {
	var sum []byte
	switch {
	case strings.HasSuffix(string(alg), "256"):
		h := sha256.Sum256([]byte(token))
		sum = h[:]
	case strings.HasSuffix(string(alg), "384"):
		h := sha512.Sum384([]byte(token))
		sum = h[:]
	default:
		h := sha512.Sum512([]byte(token))
		sum = h[:]
	}
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// judge validates a token response and returns the person (OpenID Connect Core
// sections 3.1.3.7 and 3.1.2.1).
func (o *OIDC) judge(ctx context.Context, s *source, t *oauth2.Token, a attempt) (signin.Person, error) {
	var none signin.Person
	raw, ok := t.Extra("id_token").(string)
	if !ok || !strings.EqualFold(t.TokenType, "Bearer") { // OpenID Connect Core section 3.1.3.3
		return none, errToken(errors.New("there is no id_token, or token_type is not Bearer"))
	}
	id, err := jose.Verify(raw, s.profile, func(h jose.Header) (jose.Key, error) { return s.keys.Key(ctx, h) }, o.cfg.Now())
	switch {
	case errors.Is(err, jose.ErrToken):
		return none, errToken(err)
	case err != nil:
		return none, errDown(err)
	}
	var std standard
	var all claims
	if err := errors.Join(id.Decode(&std), id.Decode(&all)); err != nil {
		return none, errToken(err)
	}
	if err := o.strict(id, std, a); err != nil {
		return none, err
	}
	if id.Has("at_hash") && std.AccessTokenHash != accessTokenHash(id.Header.Alg, t.AccessToken) {
		return none, errToken(errors.New("at_hash belongs to another access token"))
	}
	if err := o.more(ctx, s, t.AccessToken, id.Subject, all); err != nil {
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

// strict checks what the profile does not: that the token belongs to this
// sign-in and that the person authenticated as the action requires.
func (o *OIDC) strict(id *jose.Claims, std standard, a attempt) error {
	now := o.cfg.Now()
	switch {
	case std.Nonce != o.derive("nonce", a.ID):
		return errToken(errors.New("the nonce belongs to another sign-in"))
	case len(id.Audience) != 1:
		return errToken(errors.New("aud contains other clients, which ebb does not trust"))
	case id.IssuedAt.Before(a.At.Add(-skew)):
		return errToken(errors.New("iat is absent or before this sign-in"))
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

// more adds claims of the user info that the token lacks (OpenID Connect Core section 5.3).
func (o *OIDC) more(ctx context.Context, s *source, token, sub string, all claims) error {
	missing := false
	for _, name := range []string{o.cfg.GroupsClaim, o.cfg.NameClaim, o.cfg.SubjectClaim} {
		missing = missing || all[name] == nil
	}
	if !missing || s.userInfo == "" || overage(all, o.cfg.GroupsClaim) {
		return nil
	}
	var says claims
	if err := o.get(ctx, s.userInfo, token, &says); err != nil {
		return errDown(errors.New("the user info cannot be read"))
	}
	if text(says, "sub") != sub {
		return errToken(errors.New("the user info has another sub"))
	}
	// A verified address vouches for the address beside it, not for one of the token.
	if all["email"] != nil && text(all, "email") != text(says, "email") {
		delete(says, "email_verified")
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
