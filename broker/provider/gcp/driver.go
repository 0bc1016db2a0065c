package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const (
	// onTheWay is subtracted from a lifetime. Google counts it from its own response, and no
	// token may outlive its lease.
	onTheWay = 2 * time.Second
	// clocks is the tolerance for the difference between Google's clock and ebb's. A token
	// that expires later than requested by more than that counts as having a longer
	// lifetime.
	clocks = time.Minute
)

// Driver mints tokens of Google Cloud.
type Driver struct {
	cfg     Config
	maxLife time.Duration
	client  *http.Client
	direct  *http.Client // for the metadata server
	login   *login
	now     func() time.Time
}

var (
	_ provider.Driver  = (*Driver)(nil)
	_ provider.Checker = (*Driver)(nil)
)

// New returns a driver for the provider of this name. It makes no connections. now may be
// nil.
func New(name string, c Config, now func() time.Time) (*Driver, error) {
	maxLife, err := c.check(name)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Driver{
		cfg: c, maxLife: maxLife, login: newLogin(), now: now,
		client: provider.HTTP{Timeout: c.Timeout}.Client(), direct: provider.HTTP{Timeout: c.Timeout, Direct: true}.Client(),
	}, nil
}

// Traits implements provider.Driver. Access tokens of service accounts cannot be revoked.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}, ThirdParty: true}
}

// Check accepts one configured grant, or paths in buckets of one service account that fit
// into one boundary.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.plan(s)
	return err
}

// Mint requests a token of the account, and exchanges a token for Cloud Storage for a
// narrowed one. The unnarrowed token never leaves ebb and is not stored.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	p, err := d.plan(g.Scopes)
	if err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	if _, err := g.Name(); err != nil {
		return provider.Credential{}, err
	}
	life := min(g.ExpiresAt.Sub(d.now()), d.maxLife)
	if life > 10*onTheWay {
		life -= onTheWay
	}
	if life = life.Truncate(time.Second); life <= 0 {
		return provider.Credential{}, provider.Refused("The remaining lifetime is too short for a token. Request a longer one.", nil)
	}
	token, expiry, err := d.generate(ctx, p, life)
	if err != nil {
		return provider.Credential{}, err
	}
	if p.options != "" {
		if token, expiry, err = d.narrow(ctx, p, token, expiry); err != nil {
			return provider.Credential{}, err
		}
	}
	if latest := d.now().Add(life + clocks); expiry.After(latest) {
		return provider.Credential{}, fmt.Errorf("gcp: the token expires at %s, but a lifetime of %s was requested: it cannot be revoked, so it is not issued; compare the clocks", expiry.UTC().Format(time.RFC3339), life)
	}
	c := provider.Credential{Token: token, Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: expiry}
	if expiry.Before(c.ExpiresAt) {
		c.ExpiresAt = expiry
	}
	return c, nil
}

// Revoke does nothing, because tokens end only by expiry (ttl-only).
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// generate calls generateAccessToken of iamcredentials. When the broker's own token is
// refused, it logs in again and retries once.
func (d *Driver) generate(ctx context.Context, p plan, life time.Duration) (token secret.Secret, expiry time.Time, err error) {
	type request struct {
		Scope    []string `json:"scope"`
		Lifetime string   `json:"lifetime"` // google-duration
	}
	var out struct {
		Token  string    `json:"accessToken"`
		Expiry time.Time `json:"expireTime"`
	}
	to := d.cfg.Endpoints.IAMCredentials + "/v1/projects/-/serviceAccounts/" + url.PathEscape(p.account) + ":generateAccessToken"
	var dead secret.Secret
	for range 2 {
		var me secret.Secret
		if me, err = d.me(ctx, dead); err != nil {
			return token, expiry, notMade(err)
		}
		err = d.postJSON(ctx, to, me, request{p.scopes, strconv.FormatInt(int64(life/time.Second), 10) + "s"}, &out)
		if status(err) != "UNAUTHENTICATED" {
			break
		}
		dead = me
	}
	if err != nil {
		return token, expiry, judged(fmt.Errorf("gcp: requesting a token: %w", err))
	}
	if out.Token == "" || !out.Expiry.After(d.now().Add(-clocks)) {
		return token, expiry, errors.New("gcp: requesting a token: the response has no token, or an expired one")
	}
	return secret.New(out.Token), out.Expiry, nil
}

// narrow exchanges a token for one with a credential access boundary. Its errors never claim that
// nothing was made, because the wide token exists.
func (d *Driver) narrow(ctx context.Context, p plan, wide secret.Secret, until time.Time) (token secret.Secret, expiry time.Time, err error) {
	const accessToken = "urn:ietf:params:oauth:token-type:access_token"
	var out struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Issued  string `json:"issued_token_type"`
		Expires *int64 `json:"expires_in"`
	}
	err = d.postForm(ctx, d.cfg.Endpoints.STS+"/v1/token", url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":        {wide.Reveal()},
		"subject_token_type":   {accessToken},
		"requested_token_type": {accessToken},
		"options":              {p.options},
	}, &out)
	switch {
	case err != nil:
		return token, expiry, fmt.Errorf("gcp: narrowing a token: %v", err) //nolint:errorlint // not wrapped: neither refused nor busy, see above
	case out.Token == "" || out.Type != "Bearer" || out.Issued != accessToken || out.Expires != nil && *out.Expires <= 0:
		return token, expiry, errors.New("gcp: narrowing a token: the response has no token")
	case out.Token == wide.Reveal():
		return token, expiry, errors.New("gcp: narrowing a token: the response is the unnarrowed token")
	}
	if out.Expires != nil && *out.Expires < int64(until.Sub(d.now())/time.Second) {
		until = d.now().Add(time.Duration(*out.Expires) * time.Second)
	}
	return secret.New(out.Token), until, nil
}

const public = "Google Cloud does not allow this. Tell the operator of the broker: ebb providers check lists what is missing."

// judged returns a refusal for those errors of generateAccessToken which mean that no token
// was made.
func judged(err error) error {
	switch status(err) {
	case "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION":
		return provider.Refused(public, err)
	default:
		return err // including *provider.BusyError
	}
}

// notMade classifies errors of the broker's own login. Before the login nothing can have been
// made, but only a refusal makes a retry useless.
func notMade(err error) error {
	switch status(err) {
	case "invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope":
		return provider.Refused(public, err)
	default:
		return err
	}
}

// Describe implements provider.Describer. For buckets, the effect follows from the role of
// the action; otherwise from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, ok := d.cfg.Grants.Of(s); ok {
		return provider.ByAction(s), nil
	}
	bucket, _, _ := strings.Cut(s.Resource(), "/")
	action, known := d.cfg.Buckets[bucket].Actions[s.Action()]
	switch {
	case !known:
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	case action.Role == "roles/storage.objectViewer" || action.Role == "roles/storage.legacyObjectReader":
		return provider.Reading(), nil
	case action.Role == "roles/storage.objectCreator":
		return provider.Effect{Writes: provider.Yes, Reversible: provider.Yes, Sentence: "New objects can be deleted; none can be overwritten."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "Objects come back only if the bucket keeps versions."}, nil
}
