package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// session authenticates the calls of a principal. All services of an Operator
// share it.
type session struct {
	*peer
	id  string
	key jose.Signer
	kid string
	// gate holds the token and serialises fetching a new one. It is a channel
	// and not a mutex so that a caller whose context ends stops waiting.
	gate chan access
}

// access is a token for /v1. The zero access is expired.
type access struct {
	token    secret.Secret
	scheme   string
	expires  time.Time
	endsOnly bool // permits only denials, stops and revocations
}

// access returns a token other than failed. It fetches a new one when the
// cached token is about to expire.
func (s *session) access(ctx context.Context, failed secret.Secret) (access, error) {
	var a access
	select {
	case a = <-s.gate:
	case <-ctx.Done():
		return access{}, unreachable(ctx.Err())
	}
	defer func() { s.gate <- a }()
	stale := !failed.Empty() && a.token.Equal(failed)
	if !stale && s.now().Before(a.expires) {
		return a, nil
	}
	fresh, err := s.fetch(ctx)
	if err != nil {
		return access{}, err
	}
	a = fresh
	return a, nil
}

// usable validates a token response before it is used.
func usable(a wire.Token) error {
	ok := a.ExpiresIn > 0 && scopeText(a.Scope)
	switch a.TokenType {
	case "DPoP", "Bearer":
		ok = ok && word(a.AccessToken)
	case "N_A": // RFC 8693 section 2.2.1: not usable in an Authorization header
		ok = ok && a.AccessToken != "" && jose.Plain(a.AccessToken) && word(a.IssuedTokenType)
	default:
		ok = false
	}
	if !ok {
		return badAnswer("contains no token that this client can use", nil)
	}
	return nil
}

func (s *session) fetch(ctx context.Context) (access, error) {
	form := formOf(wire.TokenForm{GrantType: wire.GrantClientCredentials, Resource: []string{s.issuer + "/v1"}})
	if err := s.authenticate(form, s.id, s.key, s.kid); err != nil {
		return access{}, err
	}
	now := s.now()
	var ans wire.Token
	if err := s.form(ctx, "/oauth2/token", form, s.key, &ans); err != nil {
		return access{}, err
	}
	if err := usable(ans); err != nil {
		return access{}, err
	}
	// Renewed early, so that a token does not expire while a request is under
	// way.
	life := seconds(ans.ExpiresIn)
	endsOnly := slices.Contains(strings.Fields(ans.Scope), "ends")
	if endsOnly {
		life = 0 // a store of ebb did not answer in time; the next call fetches a new one
	}
	return access{
		token: secret.New(ans.AccessToken), scheme: ans.TokenType,
		expires: now.Add(life - min(30*time.Second, life/5)), endsOnly: endsOnly,
	}, nil
}

// form posts a form to /oauth2. When ebb requires a nonce, send repeats the
// same client assertion. ebb has not consumed it, because it checks the nonce
// first.
func (p *peer) form(ctx context.Context, path string, form url.Values, key jose.Signer, out any) error {
	return p.json(ctx, formCall(path, form, key), out)
}

func formCall(path string, form url.Values, key jose.Signer) call {
	return call{method: http.MethodPost, path: path, kind: typeForm, body: []byte(form.Encode()), key: key}
}

// authorized makes the call with a token. When ebb refuses the token, it makes
// the call once more with a new token; the refused call had no effect. ebb
// refuses a token with 401, or with 503 if the token permits only denials, stops
// and revocations.
func (s *session) authorized(ctx context.Context, c call) (*http.Response, error) {
	a, err := s.access(ctx, secret.Secret{})
	if err != nil {
		return nil, err
	}
	c.key, c.token, c.scheme = s.key, a.token, a.scheme
	resp, err := s.send(ctx, c)
	p, ok := errors.AsType[*Problem](err)
	switch {
	case ok && p.Status == http.StatusUnauthorized && p.Kind != wire.KindUseNonce && p.Kind != wire.KindInvalidProof:
	case ok && p.Status == http.StatusServiceUnavailable && a.endsOnly:
	default:
		return resp, err
	}
	fresh, ferr := s.access(ctx, a.token)
	if ferr != nil {
		return nil, ferr
	}
	if a.endsOnly && fresh.endsOnly {
		return nil, err
	}
	c.token, c.scheme = fresh.token, fresh.scheme
	return s.send(ctx, c)
}

// do makes an authorized JSON call. It encodes in unless nil, and decodes the
// response into out unless nil.
func (s *session) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return s.doWait(ctx, method, path, query, in, out, 0)
}

func (s *session) doWait(ctx context.Context, method, path string, query url.Values, in, out any, wait time.Duration) error {
	c := call{method: method, path: path, query: query}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		c.kind, c.body = typeJSON, body
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+wait)
	defer cancel()
	resp, err := s.authorized(ctx, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, out)
}
