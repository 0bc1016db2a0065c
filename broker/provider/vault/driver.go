package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/scopes"
)

// format is the issued_token_type of a credential of this kind: the data of the engine's
// response as a JSON object.
const format = "urn:ebb:token-type:vault"

const (
	// bound is the time that the server's expiration manager may need. It revokes a lease
	// whose id is unknown to ebb after the token is revoked.
	bound = time.Minute
	// spare is how much longer than its lease a token is valid, as a tolerance for the
	// difference between the server's clock and ebb's.
	spare = 30 * time.Second
	// takeBackTime bounds the revocation of a credential that is not issued.
	takeBackTime = 5 * time.Second
)

const wronglySetUp = "The provider is set up wrongly. Tell the operator of the broker: ebb providers check lists what is missing."

// Driver mints credentials of one server.
type Driver struct {
	cfg    Config
	client *vaultapi.Client
}

var (
	_ provider.Driver  = (*Driver)(nil)
	_ provider.Prober  = (*Driver)(nil)
	_ provider.Checker = (*Driver)(nil)
)

// New returns a driver for the provider of this name. It makes no connections. now may be
// nil.
func New(name string, c Config, now func() time.Time) (*Driver, error) {
	client, err := vaultapi.New(c.Config, now)
	if err = errors.Join(err, c.check(name)); err != nil {
		return nil, err
	}
	return &Driver{cfg: c, client: client}, nil
}

// Traits implements provider.Driver. Revoking a token revokes its leases, when the server's
// expiration manager reaches them. A credential that the server cannot revoke is valid until
// the engine's expiry.
func (d *Driver) Traits() provider.Traits {
	t := provider.Traits{Revocability: provider.Revocability{Class: provider.ClassEventual, Bound: bound}, ThirdParty: true}
	if d.cfg.TTLOnly {
		t.Revocability = provider.Revocability{Class: provider.ClassTTLOnly}
	}
	for _, actions := range d.cfg.Grants {
		for _, p := range actions {
			t.Floor = max(t.Floor, p.maxLife())
		}
	}
	return t
}

// Check accepts exactly one configured scope, because one path makes one credential.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.cfg.Grants.One(s)
	return err
}

// handle is the input of Revoke: the token to which everything belongs, and the lease if its
// id is known.
type handle struct {
	Accessor string `json:"accessor"`
	Lease    string `json:"lease,omitempty"`
}

func (h handle) secret() (secret.Secret, error) {
	b, err := json.Marshal(h)
	return secret.New(string(b)), err
}

// Mint makes the lease's token, saves its accessor, and requests the credential from the
// engine with it.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	p, err := d.cfg.Grants.One(g.Scopes)
	if err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	name, err := g.SavedName()
	if err != nil {
		return provider.Credential{}, err
	}
	life := g.ExpiresAt.Sub(g.IssuedAt)
	auth, err := d.token(ctx, name, g, p, life+spare)
	if err != nil && auth != nil {
		return d.undo(ctx, handle{Accessor: auth.Accessor}, err)
	} else if err != nil {
		return provider.Credential{}, err
	}
	h := handle{Accessor: auth.Accessor}
	hs, err := h.secret()
	if err == nil {
		err = g.Save(ctx, hs)
	}
	if err != nil {
		err = fmt.Errorf("vault: the token of the lease could not be saved: %w", err)
		return provider.Credential{Handle: hs}, errors.Join(err, d.takeBack(ctx, h))
	}
	made, err := d.make(ctx, secret.New(auth.ClientToken), p)
	if err != nil {
		return provider.Credential{Handle: hs}, err
	}
	h.Lease = made.LeaseID
	if hs, err = h.secret(); err != nil {
		return provider.Credential{Handle: hs}, err
	}
	c, err := credential(g, made, auth, hs)
	if most := max(life+spare, p.maxLife()); err == nil && (made.LeaseDuration <= 0 || seconds(made.LeaseDuration) > most) {
		return d.tooLong(ctx, c, h, fmt.Sprintf("The engine's credential would live for %d s, longer than the accepted %d s. Request a longer lifetime; or the operator shortens default_ttl of the engine's role, or sets max_lifetime in grants.", made.LeaseDuration, int64(most.Seconds())))
	}
	return c, err
}

// undo revokes a token that has the wrong policies or lifetime. Its error is a refusal only
// when the token is revoked; otherwise the revocation is pending.
func (d *Driver) undo(ctx context.Context, h handle, cause error) (provider.Credential, error) {
	if err := d.takeBack(ctx, h); err != nil {
		hs, bad := h.secret()
		return provider.Credential{Handle: hs}, errors.Join(cause, err, bad)
	}
	return provider.Credential{}, provider.Refused(wronglySetUp, cause)
}

// tooLong revokes a credential that would outlive its limit. If the revocation fails, it stays
// pending until the engine's own expiry.
func (d *Driver) tooLong(ctx context.Context, c provider.Credential, h handle, sentence string) (provider.Credential, error) {
	cause := errors.New("vault: " + sentence)
	if err := d.takeBack(ctx, h); err != nil || d.cfg.TTLOnly {
		return c, errors.Join(cause, err)
	}
	return provider.Credential{}, provider.Refused(sentence, cause)
}

// token makes the token of a lease. A token with more permissions than requested is returned
// beside the error.
func (d *Driver) token(ctx context.Context, name string, g provider.Grant, p Path, life time.Duration) (*api.SecretAuth, error) {
	ttl := fmt.Sprintf("%ds", int64(math.Ceil(life.Seconds())))
	no := false
	request := &api.TokenCreateRequest{
		Policies: p.Policies, TTL: ttl, ExplicitMaxTTL: ttl, Renewable: &no, NoDefaultPolicy: true, Type: "service", DisplayName: name,
		Metadata: map[string]string{"ebb_lease": g.LeaseID, "ebb_task": g.TaskID, "ebb_instance": g.Instance, "ebb_sandbox": g.Sandbox},
	}
	var out *api.Secret
	err := d.client.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
		out, err = c.Auth().Token().CreateWithRoleWithContext(ctx, request, d.cfg.TokenRole)
		return err
	})
	if err != nil {
		return nil, judged(err, "making the token of a lease")
	}
	if out == nil || out.Auth == nil || out.Auth.ClientToken == "" || out.Auth.Accessor == "" {
		// A token without an accessor (a batch token) cannot be revoked: it remains valid,
		// unused, until its expiry. So it counts as a made credential.
		return nil, errors.New("vault: the response has no token that can be revoked: the token role must make service tokens")
	}
	a := out.Auth
	got := slices.DeleteFunc(slices.Clone(a.Policies), func(s string) bool { return slices.Contains(p.Policies, s) })
	if len(got) > 0 || len(a.IdentityPolicies) > 0 || a.LeaseDuration <= 0 || time.Duration(a.LeaseDuration)*time.Second > life+time.Second {
		return a, fmt.Errorf("vault: the token role adds policies %q or a longer life (%d s)", got, a.LeaseDuration)
	}
	return a, nil
}

// make requests the credential from the engine.
func (d *Driver) make(ctx context.Context, token secret.Secret, p Path) (*api.Secret, error) {
	as, err := d.client.As(token)
	if err != nil {
		return nil, err
	}
	var out *api.Secret
	if p.Write {
		params := map[string]any{}
		for k, v := range p.Params {
			params[k] = v
		}
		out, err = as.Logical().WriteWithContext(ctx, p.Path, params)
	} else {
		out, err = as.Logical().ReadWithContext(ctx, p.Path)
	}
	if err != nil {
		// Not ErrRefused: the token exists and has to be revoked, also if the engine refused.
		return nil, fmt.Errorf("vault: requesting the credential from the engine: %w", err)
	}
	if out == nil || out.LeaseID == "" || len(out.Data) == 0 {
		return nil, errors.New("vault: the engine's response has no lease, so its credential cannot be revoked")
	}
	return out, nil
}

// seconds converts a number of seconds from the server to a duration, without overflow.
func seconds(n int) time.Duration {
	return time.Duration(min(int64(n), int64(math.MaxInt64/time.Second)/2)) * time.Second
}

func credential(g provider.Grant, made *api.Secret, auth *api.SecretAuth, h secret.Secret) (provider.Credential, error) {
	c := provider.Credential{
		Type: "N_A", Format: format, ExpiresAt: g.ExpiresAt, Handle: h,
		// The expiry of its token revokes the credential, unless the engine's backend is
		// unavailable then; spare includes the time in transit.
		DiesAt: g.IssuedAt.Add(max(seconds(auth.LeaseDuration), seconds(made.LeaseDuration)) + spare),
	}
	if end := g.IssuedAt.Add(seconds(made.LeaseDuration)); made.LeaseDuration > 0 && end.Before(c.ExpiresAt) {
		c.ExpiresAt = end // the engine's role has a shorter maximum
	}
	token, err := json.Marshal(made.Data)
	if err != nil {
		return provider.Credential{Handle: h}, err
	}
	c.Token = secret.New(string(token))
	return c, nil
}

// judged returns a refusal for those errors which mean that nothing was made.
func judged(err error, doing string) error {
	err = fmt.Errorf("vault: %s: %w", doing, err)
	if !vaultapi.Judged(err) { // such as the status of a proxy: the server may have made it nevertheless
		return err
	}
	switch vaultapi.Status(err) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest:
		return provider.Refused("The provider does not allow this. Tell the operator of the broker: ebb providers check lists what is missing.", err)
	default:
		return err // including *provider.BusyError
	}
}

// Describe implements provider.Describer. The effects come from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants.Of(s); !known {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}

func read(t provider.Target) (h handle, err error) {
	if t.Handle.Empty() {
		// No token was saved, so no engine was called. A token whose response was lost
		// remains valid, unused, until its expiry.
		return h, nil
	}
	if err := json.Unmarshal([]byte(t.Handle.Reveal()), &h); err != nil || h.Accessor == "" {
		return h, errors.New("vault: the handle is damaged")
	}
	return h, nil
}

// Revoke ends the engine's lease and waits for it. Then it revokes the token with everything that
// belongs to it. If the engine's backend is down, the server answers 400 and queues nothing; that
// is an error like any other.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	h, err := read(t)
	if err != nil || h.Accessor == "" {
		return err
	}
	return d.end(ctx, h)
}

func (d *Driver) end(ctx context.Context, h handle) error {
	return d.client.Do(ctx, func(ctx context.Context, c *api.Client) error {
		if h.Lease != "" { // the server answers an unknown lease as revoked
			// Not Sys().Revoke: it puts the id into the path, so that policies would have to
			// allow every path of every engine.
			if err := tell(ctx, c, "sys/leases/revoke", map[string]any{"lease_id": h.Lease, "sync": true}); err != nil {
				return fmt.Errorf("vault: revoking the lease: %w", err)
			}
		}
		// Not Auth().Token().RevokeAccessor: it does not check the response.
		if err := tell(ctx, c, "auth/token/revoke-accessor", map[string]any{"accessor": h.Accessor}); err != nil && !gone(err) {
			return fmt.Errorf("vault: revoking the token of the lease: %w", err)
		}
		return nil
	})
}

// tell makes a call without a result.
func tell(ctx context.Context, c *api.Client, path string, body map[string]any) error {
	out, err := c.Logical().WriteWithContext(ctx, path, body)
	if err != nil {
		return err
	}
	return vaultapi.Done(out)
}

// gone reports whether no token has the accessor. A status is not sufficient: a 404 from a
// proxy would make every token count as revoked.
func gone(err error) bool { return vaultapi.Says(err, "invalid accessor") }

// takeBack revokes a credential that is not issued, also if the caller's context has ended.
func (d *Driver) takeBack(ctx context.Context, h handle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	return d.end(ctx, h)
}

// Probe looks up the lease and its token on the server. For engines whose credential outlives its
// lease, the state is unknown.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	h, err := read(t)
	if err != nil {
		return false, err
	}
	if h.Accessor == "" {
		return false, fmt.Errorf("vault: no token is known: %w", errors.ErrUnsupported)
	}
	if d.cfg.TTLOnly {
		return false, fmt.Errorf("vault: the server's engines cannot tell whether this credential is still valid: %w", errors.ErrUnsupported)
	}
	err = d.client.Do(ctx, func(ctx context.Context, c *api.Client) error {
		if h.Lease != "" {
			_, err := c.Sys().LookupWithContext(ctx, h.Lease)
			if err == nil {
				alive = true
				return nil
			}
			if !vaultapi.Says(err, "invalid lease") {
				return fmt.Errorf("vault: looking for the lease: %w", err)
			}
		}
		_, err := c.Auth().Token().LookupAccessorWithContext(ctx, h.Accessor)
		switch {
		case err == nil:
			alive = true
		case !gone(err):
			return fmt.Errorf("vault: looking for the token of the lease: %w", err)
		}
		return nil
	})
	return alive, err
}
