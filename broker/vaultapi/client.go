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

// maxAnswer is far above any answer that is asked for; the library keeps whole ones.
const maxAnswer = 1 << 20

// Client is safe for concurrent use.
type Client struct {
	cfg  Config
	bare *api.Client // without a token: for logins only
	now  func() time.Time

	mu        sync.Mutex // one login at a time
	me        *api.Client
	renewAt   time.Time // zero = the token does not end
	unwrapped secret.Secret
}

// New makes a client. It does not connect. now may be nil.
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
	ac.Address, ac.AgentAddress = c.Address, "" // never what VAULT_ADDR says
	ac.HttpClient = provider.HTTP{Roots: pool, Timeout: c.Timeout, MaxAnswer: maxAnswer}.Client()
	ac.HttpClient.Transport = guarded{ac.HttpClient.Transport}
	ac.Timeout, ac.MaxRetries = c.Timeout, 0 // whoever calls knows whether trying again is safe
	bare, err := api.NewClient(ac)
	if err != nil {
		return nil, errors.New("vault: the client cannot be configured") // err may hold parts of the environment
	}
	bare.ClearToken() // never what VAULT_TOKEN says
	bare.SetNamespace(c.Namespace)
	return &Client{cfg: c, bare: bare, now: now}, nil
}

// As is a client with another token, which is never logged in again.
func (c *Client) As(token secret.Secret) (*api.Client, error) {
	other, err := c.bare.CloneWithHeaders() // keeps the namespace
	if err != nil {
		return nil, errors.New("vault: the client cannot be copied")
	}
	other.SetToken(token.Reveal())
	return other, nil
}

// Do calls f as the broker. When the token turns out to be dead, it logs in again
// and calls f once more: Vault's own 403 means that nothing was done.
func (c *Client) Do(ctx context.Context, f func(context.Context, *api.Client) error) error {
	me, err := c.session(ctx, nil)
	if err != nil {
		return err
	}
	err = f(ctx, me)
	if !Refused(err, http.StatusForbidden) || c.alive(ctx, me) {
		return Busy(err)
	}
	if me, err = c.session(ctx, me); err != nil {
		return err
	}
	return Busy(f(ctx, me))
}

// alive tells a token that may not from a token that is not any more.
func (c *Client) alive(ctx context.Context, me *api.Client) bool {
	_, err := me.Auth().Token().LookupSelfWithContext(ctx)
	return !Refused(err, http.StatusForbidden)
}

// session is a client that is logged in; it replaces dead.
func (c *Client) session(ctx context.Context, dead *api.Client) (*api.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.me != nil && c.me != dead && (c.renewAt.IsZero() || now.Before(c.renewAt)) {
		return c.me, nil
	}
	auth, err := c.login(ctx)
	if err != nil {
		if c.me != nil && c.me != dead { // it may still do: the end of its time has not come
			return c.me, nil
		}
		return nil, err
	}
	me, err := c.As(secret.New(auth.ClientToken))
	if err != nil {
		return nil, err
	}
	c.me, c.renewAt = me, time.Time{}
	if auth.LeaseDuration > 0 { // a new login at two thirds, not a renewal: that ends at some maximum anyway
		c.renewAt = now.Add(time.Duration(auth.LeaseDuration) * time.Second * 2 / 3)
	}
	return me, nil
}
