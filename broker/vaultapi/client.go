package vaultapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response in bytes, far above that of any expected
// response. The library keeps whole responses in memory.
const maxAnswer = 1 << 20

// Client is a client of one Vault. It is safe for concurrent use.
type Client struct {
	cfg  Config
	bare *api.Client // without a token, for logins only
	now  func() time.Time

	mu        sync.Mutex // serializes logins
	me        *api.Client
	renewAt   time.Time // zero when the token does not expire
	unwrapped secret.Secret
}

// New returns a Client. It makes no connections. now may be nil.
func New(c Config, now func() time.Time) (*Client, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	pool, err := provider.Roots(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if now == nil {
		now = time.Now
	}
	ac := api.DefaultConfig()
	if ac.Error != nil {
		return nil, fmt.Errorf("vault: %w", ac.Error)
	}
	ac.Address, ac.AgentAddress = c.Address, "" // never VAULT_ADDR
	ac.HttpClient = provider.HTTP{Roots: pool, Timeout: c.Timeout, MaxAnswer: maxAnswer}.Client()
	ac.HttpClient.Transport = guarded{ac.HttpClient.Transport}
	ac.Timeout, ac.MaxRetries = c.Timeout, 0 // only the caller knows whether a retry is safe
	bare, err := api.NewClient(ac)
	if err != nil {
		return nil, errors.New("vault: the client cannot be configured") // err may contain parts of the environment
	}
	bare.ClearToken() // never VAULT_TOKEN
	bare.SetNamespace(c.Namespace)
	return &Client{cfg: c, bare: bare, now: now}, nil
}

// As returns a client with another token, which the Client never renews.
func (c *Client) As(token secret.Secret) (*api.Client, error) {
	other, err := c.bare.CloneWithHeaders() // keeps the namespace
	if err != nil {
		return nil, errors.New("vault: the client cannot be copied")
	}
	other.SetToken(token.Reveal())
	return other, nil
}

// Do calls f with the broker's token. When that token is no longer valid, Do logs in again
// and calls f once more. This is safe, because a 403 from Vault itself means that Vault did
// nothing.
func (c *Client) Do(ctx context.Context, f func(context.Context, *api.Client) error) error {
	me, err := c.session(ctx, nil)
	if err != nil {
		return err
	}
	err = f(ctx, me)
	if !Refused(err, http.StatusForbidden) || c.alive(ctx, me) {
		return asBusy(err)
	}
	if me, err = c.session(ctx, me); err != nil {
		return err
	}
	return asBusy(f(ctx, me))
}

// alive reports whether the token is valid. It distinguishes a token without permission from
// one that has expired or was revoked.
func (c *Client) alive(ctx context.Context, me *api.Client) bool {
	_, err := me.Auth().Token().LookupSelfWithContext(ctx)
	return !Refused(err, http.StatusForbidden)
}

// session returns a logged-in client other than dead.
func (c *Client) session(ctx context.Context, dead *api.Client) (*api.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.me != nil && c.me != dead && (c.renewAt.IsZero() || now.Before(c.renewAt)) {
		return c.me, nil
	}
	auth, err := c.login(ctx)
	if err != nil {
		if c.me != nil && c.me != dead { // its renewal failed, but it has not expired yet
			return c.me, nil
		}
		return nil, err
	}
	me, err := c.As(secret.New(auth.ClientToken))
	if err != nil {
		return nil, err
	}
	c.me, c.renewAt = me, time.Time{}
	if auth.LeaseDuration > 0 { // a new login at two thirds of the lifetime, because renewals end at a maximum
		c.renewAt = now.Add(time.Duration(auth.LeaseDuration) * time.Second * 2 / 3)
	}
	return me, nil
}
