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

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/provider"
)

// OperatorConfig says who the principal is. All members but those of Config
// with a default are required.
type OperatorConfig struct {
	Config
	ClientID string      // name of the principal
	Key      jose.Signer // its registered key; proofs are made with it too
	KID      string      // kid under which it is registered; needed only when the principal has several keys
}

// Operator is a principal: an operator, runner, approver, auditor or resource
// server. Which methods it may call is decided by its roles.
type Operator struct {
	*peer
	id  string
	key jose.Signer
	kid string
	// gate holds the token and lets one caller at a time fetch another. It is a
	// channel and not a mutex so that a caller who gives up does not wait.
	gate chan access
}

// access is a token for /v1. The zero access is expired.
type access struct {
	token   provider.Secret
	scheme  string
	expires time.Time
}

// NewOperator makes an Operator; it does not call ebb yet.
func NewOperator(c OperatorConfig) (*Operator, error) {
	p, err := newPeer(c.Config)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" || c.Key == nil {
		return nil, errors.New("client: a principal needs its name and its key")
	}
	if _, err := jose.AlgOf(c.Key.Public()); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	o := &Operator{peer: p, id: c.ClientID, key: c.Key, kid: c.KID, gate: make(chan access, 1)}
	o.gate <- access{}
	return o, nil
}

// access returns a token that is not the one that failed, fetching one when the
// kept one is about to expire.
func (o *Operator) access(ctx context.Context, failed provider.Secret) (access, error) {
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

// tokenAnswer is RFC 6749 section 5.1 with RFC 9396 section 7.
type tokenAnswer struct {
	AccessToken string             `json:"access_token"`
	TokenType   string             `json:"token_type"`
	ExpiresIn   int64              `json:"expires_in"`
	Scope       string             `json:"scope"`
	Details     json.RawMessage    `json:"authorization_details"`
	LeaseID     string             `json:"lease_id"`
	Format      string             `json:"issued_token_type"`
	Class       provider.Class     `json:"revocability"`
	Endpoint    *provider.Endpoint `json:"endpoint"`
}

func (a tokenAnswer) check() error {
	ok := a.ExpiresIn > 0
	switch a.TokenType {
	case "DPoP", "Bearer":
		ok = ok && word(a.AccessToken)
	case "N_A": // RFC 8693 section 2.2.1: nothing for an Authorization header
		ok = ok && a.AccessToken != "" && jose.Plain(a.AccessToken) && word(a.Format)
	default:
		ok = false
	}
	if !ok {
		return badAnswer("holds no token that this client can use", nil)
	}
	return nil
}

func (o *Operator) fetch(ctx context.Context) (access, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {o.issuer + "/v1"}}
	if err := o.authenticate(form, o.id, o.key, o.kid); err != nil {
		return access{}, err
	}
	now := o.now()
	var ans tokenAnswer
	if err := o.form(ctx, "/oauth2/token", form, o.key, &ans); err != nil {
		return access{}, err
	}
	if err := ans.check(); err != nil {
		return access{}, err
	}
	// Renewed a little early, so that no request arrives with a token that
	// expired on its way.
	life := seconds(ans.ExpiresIn)
	if slices.Contains(strings.Fields(ans.Scope), "ends") {
		life = 0 // a store of ebb does not answer, and the token only ends things: ask again for the next call
	}
	return access{
		token: provider.NewSecret(ans.AccessToken), scheme: ans.TokenType,
		expires: now.Add(life - min(30*time.Second, life/5)),
	}, nil
}

// form posts a form to /oauth2. A nonce that is asked for makes send repeat the
// same client assertion, which ebb has not consumed: nonces come first.
func (p *peer) form(ctx context.Context, path string, form url.Values, key jose.Signer, out any) error {
	return p.json(ctx, formCall(path, form, key), out)
}

func formCall(path string, form url.Values, key jose.Signer) call {
	return call{method: http.MethodPost, path: path, kind: typeForm, body: []byte(form.Encode()), key: key}
}

// authorized makes the call with a token, once more with another token when the
// first is no longer accepted: nothing was done then.
func (o *Operator) authorized(ctx context.Context, c call) (*http.Response, error) {
	a, err := o.access(ctx, provider.Secret{})
	if err != nil {
		return nil, err
	}
	c.key, c.token, c.scheme = o.key, a.token, a.scheme
	resp, err := o.send(ctx, c)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Status != http.StatusUnauthorized || p.Kind == broker.UseNonce || p.Kind == broker.InvalidProof {
		return resp, err
	}
	if a, err = o.access(ctx, a.token); err != nil {
		return nil, err
	}
	c.token, c.scheme = a.token, a.scheme
	return o.send(ctx, c)
}

// do makes an authorized JSON call: in is encoded unless nil, the answer decoded
// into out unless nil.
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
