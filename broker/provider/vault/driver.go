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

// Format is the issued_token_type of a credential of this kind: the data of the
// engine's answer as a JSON object.
const Format = "urn:ebb:token-type:vault"

const (
	// bound is what the expiration manager of a server may need: a lease whose id
	// is not known is ended by it, after the token.
	bound = time.Minute
	// spare is what a token outlives its lease by, so that the server's clock and
	// ours need not be one.
	spare = 30 * time.Second
	// takeBackTime bounds the revocation of a credential that is not issued.
	takeBackTime = 5 * time.Second
)

const wronglySetUp = "The provider is set up wrongly. Tell the operator of the broker: ebb providers check says what is missing."

// Driver mints through one server.
type Driver struct {
	cfg    Config
	client *vaultapi.Client
}

var (
	_ provider.Driver  = (*Driver)(nil)
	_ provider.Prober  = (*Driver)(nil)
	_ provider.Checker = (*Driver)(nil)
)

// New makes a driver of a provider. It does not connect. now may be nil.
func New(name string, c Config, now func() time.Time) (*Driver, error) {
	client, err := vaultapi.New(c.Config, now)
	if err = errors.Join(err, c.check(name)); err != nil {
		return nil, err
	}
	return &Driver{cfg: c, client: client}, nil
}

// Traits: the end of a token ends its leases, by the server's own pace. What the
// engine made and the server cannot end lives as long as the engine says.
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

// Check accepts exactly one configured scope: one path makes one credential.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.cfg.Grants.One(s)
	return err
}

// handle is what Revoke needs: the token that everything hangs on, and the lease
// when its id is known.
type handle struct {
	Accessor string `json:"accessor"`
	Lease    string `json:"lease,omitempty"`
}

func (h handle) secret() (secret.Secret, error) {
	b, err := json.Marshal(h)
	return secret.New(string(b)), err
}

// Mint makes the lease's token, saves its accessor, and asks the engine with it.
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
		return d.tooLong(ctx, c, h, fmt.Errorf("vault: the engine's lease is for %d s, and may be for %s: shorten the engine's role, or set max_lifetime", made.LeaseDuration, most))
	}
	return c, err
}

// undo takes back a token that must not be used, with the policies it has. It is
// refused only when it is dead; otherwise it is pending.
func (d *Driver) undo(ctx context.Context, h handle, cause error) (provider.Credential, error) {
	if err := d.takeBack(ctx, h); err != nil {
		hs, bad := h.secret()
		return provider.Credential{Handle: hs}, errors.Join(cause, err, bad)
	}
	return provider.Credential{}, provider.Refused(wronglySetUp, cause)
}

// tooLong revokes a credential that would outlive its limit. If the revocation fails, it stays
// pending until the engine's own expiry.
func (d *Driver) tooLong(ctx context.Context, c provider.Credential, h handle, cause error) (provider.Credential, error) {
	if err := d.takeBack(ctx, h); err != nil || d.cfg.TTLOnly {
		return c, errors.Join(cause, err)
	}
	return provider.Credential{}, provider.Refused(wronglySetUp, cause)
}

// token makes the token of a lease. It returns one that is wider than asked beside
// the error.
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
		// A token without an accessor (a batch token) cannot be revoked: it lives, unused,
		// until its time is over. That is not as if nothing had been made.
		return nil, errors.New("vault: the answer has no token that can be revoked: the token role must make service tokens")
	}
	a := out.Auth
	got := slices.DeleteFunc(slices.Clone(a.Policies), func(s string) bool { return slices.Contains(p.Policies, s) })
	if len(got) > 0 || len(a.IdentityPolicies) > 0 || a.LeaseDuration <= 0 || time.Duration(a.LeaseDuration)*time.Second > life+time.Second {
		return a, fmt.Errorf("vault: the token role adds policies %q or a longer life (%d s)", got, a.LeaseDuration)
	}
	return a, nil
}

// make asks the engine.
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
		return nil, fmt.Errorf("vault: asking the engine: %w", err)
	}
	if out == nil || out.LeaseID == "" || len(out.Data) == 0 {
		return nil, errors.New("vault: the engine's answer has no lease: what it holds cannot be taken back")
	}
	return out, nil
}

// seconds is a duration that the server named, without overflow.
func seconds(n int) time.Duration {
	return time.Duration(min(int64(n), int64(math.MaxInt64/time.Second)/2)) * time.Second
}

func credential(g provider.Grant, made *api.Secret, auth *api.SecretAuth, h secret.Secret) (provider.Credential, error) {
	c := provider.Credential{
		Type: "N_A", Format: Format, ExpiresAt: g.ExpiresAt, Handle: h,
		// The end of its token ends it, unless the engine's backend is down at that
		// moment; spare for the way there.
		DiesAt: g.IssuedAt.Add(max(seconds(auth.LeaseDuration), seconds(made.LeaseDuration)) + spare),
	}
	if end := g.IssuedAt.Add(seconds(made.LeaseDuration)); made.LeaseDuration > 0 && end.Before(c.ExpiresAt) {
		c.ExpiresAt = end // the role of the engine allows less
	}
	token, err := json.Marshal(made.Data)
	if err != nil {
		return provider.Credential{Handle: h}, err
	}
	c.Token = secret.New(string(token))
	return c, nil
}

// judged says which answers mean that nothing was made.
func judged(err error, doing string) error {
	err = fmt.Errorf("vault: %s: %w", doing, err)
	if !vaultapi.Judged(err) { // a proxy's status, say: the server may have done it all the same
		return err
	}
	switch vaultapi.Status(err) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest:
		return provider.Refused("The provider does not allow this. Tell the operator of the broker: ebb providers check says what is missing.", err)
	default:
		return err // *provider.BusyError among them
	}
}

// Describe implements provider.Describer: actions are words of the operator's.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants.Of(s); !known {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}

func read(t provider.Target) (h handle, err error) {
	if t.Handle.Empty() {
		// No token was saved, so nothing was asked of an engine. A token whose answer
		// was cut off lives on unused, until its time is over.
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
		if h.Lease != "" { // one that is unknown is answered as done
			// Not Sys().Revoke: that puts the id into the path, where policies would
			// have to allow every path of every engine.
			if err := tell(ctx, c, "sys/leases/revoke", map[string]any{"lease_id": h.Lease, "sync": true}); err != nil {
				return fmt.Errorf("vault: revoking the lease: %w", err)
			}
		}
		// Not Auth().Token().RevokeAccessor: that looks at no answer.
		if err := tell(ctx, c, "auth/token/revoke-accessor", map[string]any{"accessor": h.Accessor}); err != nil && !gone(err) {
			return fmt.Errorf("vault: revoking the token of the lease: %w", err)
		}
		return nil
	})
}

// tell makes a call whose only answer is that it was done.
func tell(ctx context.Context, c *api.Client, path string, body map[string]any) error {
	out, err := c.Logical().WriteWithContext(ctx, path, body)
	if err != nil {
		return err
	}
	return vaultapi.Done(out)
}

// gone reports that there is no token with the accessor. No status says that: a
// proxy's own 404 would make everything dead.
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
		return false, fmt.Errorf("vault: nobody asks the server about what it issued: %w", errors.ErrUnsupported)
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
