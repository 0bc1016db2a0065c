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
	// onTheWay is taken off a lifetime: Google counts from when it answers, and
	// nothing may outlive its lease.
	onTheWay = 2 * time.Second
	// clocks is how far Google's clock may be from ours before a token that lives
	// longer than was asked for counts as just that.
	clocks = time.Minute
)

// Driver mints at Google Cloud.
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

// New makes a driver of a provider. It does not connect. now may be nil.
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

// Traits: no access token of a service account can be revoked.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}, ThirdParty: true}
}

// Check accepts one configured grant, or paths in buckets of one service account
// that fit into a boundary.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.plan(s)
	return err
}

// Mint asks for a token of the account, and exchanges one for Cloud Storage for a
// narrowed one. The wide one never leaves ebb, and is not kept.
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
		return provider.Credential{}, provider.Refused("Too little time is left for a token. Ask for more.", nil)
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
		return provider.Credential{}, fmt.Errorf("gcp: the token lives until %s and was to live %s: it cannot be taken back, and is not handed out; compare the clocks", expiry.UTC().Format(time.RFC3339), life)
	}
	c := provider.Credential{Token: token, Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: expiry}
	if expiry.Before(c.ExpiresAt) {
		c.ExpiresAt = expiry
	}
	return c, nil
}

// Revoke has nothing to do: the class says that a token dies by its expiry alone.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// generate calls iamcredentials generateAccessToken. When the broker's own token
// turns out to be dead, it gets a new one and tries once more.
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
		return token, expiry, judged(fmt.Errorf("gcp: asking for a token: %w", err))
	}
	if out.Token == "" || !out.Expiry.After(d.now().Add(-clocks)) {
		return token, expiry, errors.New("gcp: asking for a token: the answer holds none, or one that is over")
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
		return token, expiry, errors.New("gcp: narrowing a token: the answer holds none")
	case out.Token == wide.Reveal():
		return token, expiry, errors.New("gcp: narrowing a token: the answer is the token that was to be narrowed")
	}
	if out.Expires != nil && *out.Expires < int64(until.Sub(d.now())/time.Second) {
		until = d.now().Add(time.Duration(*out.Expires) * time.Second)
	}
	return secret.New(out.Token), until, nil
}

const public = "Google Cloud does not allow this. Tell the operator of the broker: ebb providers check says what is missing."

// judged says which answers of generateAccessToken mean that nothing was made.
func judged(err error) error {
	switch status(err) {
	case "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION":
		return provider.Refused(public, err)
	default:
		return err // *provider.BusyError among them
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

// Describe implements provider.Describer: by the role that an action in a bucket is
// cut down to; what else accounts may do, the operator's words say.
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
