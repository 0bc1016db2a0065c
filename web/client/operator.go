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

// OperatorConfig identifies the principal. All members without a documented
// default are required.
type OperatorConfig struct {
	Config
	ClientID string      // id of the principal
	Key      jose.Signer // its registered key, also for DPoP proofs
	KID      string      // kid under which it is registered; needed only when the principal has several keys
}

// Operator calls ebb as a principal: an operator, runner, approver, auditor or
// resource server. Its roles determine which methods it may call.
type Operator struct {
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
	token   secret.Secret
	scheme  string
	expires time.Time
}

// NewOperator returns an Operator. It does not call ebb.
func NewOperator(c OperatorConfig) (*Operator, error) {
	p, err := newPeer(c.Config)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" || c.Key == nil {
		return nil, errors.New("client: ClientID and Key are required")
	}
	if _, err := jose.AlgOf(c.Key.Public()); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	o := &Operator{peer: p, id: c.ClientID, key: c.Key, kid: c.KID, gate: make(chan access, 1)}
	o.gate <- access{}
	return o, nil
}

// access returns a token other than failed. It fetches a new one when the
// cached token is about to expire.
func (o *Operator) access(ctx context.Context, failed secret.Secret) (access, error) {
	var a access
	select {
	case a = <-o.gate:
	case <-ctx.Done():
		return access{}, unreachable(ctx.Err())
	}
	defer func() { o.gate <- a }()
	stale := !failed.Empty() && a.token.Equal(failed)
	if !stale && o.now().Before(a.expires) {
		return a, nil
	}
	fresh, err := o.fetch(ctx)
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

func (o *Operator) fetch(ctx context.Context) (access, error) {
	form := formOf(wire.TokenForm{GrantType: wire.GrantClientCredentials, Resource: []string{o.issuer + "/v1"}})
	if err := o.authenticate(form, o.id, o.key, o.kid); err != nil {
		return access{}, err
	}
	now := o.now()
	var ans wire.Token
	if err := o.form(ctx, "/oauth2/token", form, o.key, &ans); err != nil {
		return access{}, err
	}
	if err := usable(ans); err != nil {
		return access{}, err
	}
	// Renewed early, so that a token does not expire while a request is under
	// way.
	life := seconds(ans.ExpiresIn)
	if slices.Contains(strings.Fields(ans.Scope), "ends") {
		life = 0 // a store of ebb does not answer, so the token permits only denials, stops and revocations; the next call fetches a new one
	}
	return access{
		token: secret.New(ans.AccessToken), scheme: ans.TokenType,
		expires: now.Add(life - min(30*time.Second, life/5)),
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

// authorized makes the call with a token. When ebb refuses the token with 401,
// it makes the call once more with a new token; the refused call had no effect.
func (o *Operator) authorized(ctx context.Context, c call) (*http.Response, error) {
	a, err := o.access(ctx, secret.Secret{})
	if err != nil {
		return nil, err
	}
	c.key, c.token, c.scheme = o.key, a.token, a.scheme
	resp, err := o.send(ctx, c)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Status != http.StatusUnauthorized || p.Kind == wire.KindUseNonce || p.Kind == wire.KindInvalidProof {
		return resp, err
	}
	if a, err = o.access(ctx, a.token); err != nil {
		return nil, err
	}
	c.token, c.scheme = a.token, a.scheme
	return o.send(ctx, c)
}

// do makes an authorized JSON call. It encodes in unless nil, and decodes the
// response into out unless nil.
func (o *Operator) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return o.doWait(ctx, method, path, query, in, out, 0)
}

func (o *Operator) doWait(ctx context.Context, method, path string, query url.Values, in, out any, wait time.Duration) error {
	c := call{method: method, path: path, query: query}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		c.kind, c.body = typeJSON, body
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout+wait)
	defer cancel()
	resp, err := o.authorized(ctx, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, out)
}
