package brokertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Party configures a driver for an Upstream.
type Party struct {
	URL      string
	Traits   provider.Traits
	ByHandle bool          // a credential is found again only by a handle, which the upstream chooses
	Probes   bool          // it can probe
	Lists    bool          // it can list
	ByClock  bool          // it decides by Target.Now, without a call, whether the credential has expired or the bound has passed
	Timeout  time.Duration // of one call; 0 = 10 s
	Shape    func(*provider.Credential)
}

// Driver returns the driver.
func (p Party) Driver() provider.Driver {
	if p.Traits.Revocability.Class == "" {
		p.Traits.Revocability.Class = provider.ClassInstant
	}
	p.Traits.ThirdParty = true
	d := &driver{Party: p, client: provider.HTTP{Timeout: p.Timeout}.Client()}
	switch {
	case p.Probes && p.Lists:
		return both{d, prober{d}, lister{d}}
	case p.Probes:
		return probing{d, prober{d}}
	case p.Lists:
		return listing{d, lister{d}}
	}
	return d
}

type driver struct {
	Party
	client *http.Client
}

type (
	prober  struct{ d *driver }
	lister  struct{ d *driver }
	probing struct {
		*driver
		prober
	}
	listing struct {
		*driver
		lister
	}
	both struct {
		*driver
		prober
		lister
	}
)

func (d *driver) Traits() provider.Traits { return d.Party.Traits }

func (d *driver) Check(s scopes.Set) error {
	if s.Empty() {
		return fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	return nil
}

// Describe implements provider.Describer.
func (d *driver) Describe(s scopes.Scope) (provider.Effect, error) { return provider.ByAction(s), nil }

func (d *driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	name := provider.Name(g.Instance, g.LeaseID)
	if name == "" || g.Scopes.Empty() || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, errors.New("the grant is incomplete")
	}
	in := message{Name: name, TTL: int(max(g.ExpiresAt.Sub(g.IssuedAt), d.Party.Traits.Floor) / time.Second)}
	if d.Party.Traits.Lasting {
		in.TTL = 0
	}
	if d.ByHandle {
		r, err := d.call(ctx, OpReserve, in)
		if err != nil {
			return provider.Credential{}, err
		}
		if err := g.Save(ctx, secret.New(r.Handle)); err != nil {
			return provider.Credential{}, err
		}
		in.Handle = r.Handle
	}
	out, err := d.call(ctx, OpMint, in)
	if err != nil {
		return provider.Credential{}, err
	}
	c := provider.Credential{Token: secret.New(out.Token), Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: out.Dies}
	if d.ByHandle {
		c.Handle = secret.New(out.Handle)
	}
	if d.Shape != nil {
		d.Shape(&c)
	}
	return c, nil
}

// which returns the message that identifies a credential for the upstream.
func (d *driver) which(t provider.Target) (in message, known bool) {
	in.Name = provider.Name(t.Instance, t.LeaseID)
	if d.ByHandle {
		in.Handle = t.Handle.Reveal()
		return in, in.Handle != "" // without a handle no credential was reserved
	}
	return in, true
}

// over reports whether a driver with ByClock omits the call, because the credential has expired by Target.Now.
func (d *driver) over(t provider.Target) bool {
	return d.ByClock && !t.DiesAt.IsZero() && t.Now.After(t.DiesAt.Add(time.Minute))
}

func (d *driver) Revoke(ctx context.Context, t provider.Target) error {
	in, known := d.which(t)
	if !known || d.over(t) {
		return nil
	}
	_, err := d.call(ctx, OpRevoke, in)
	return err
}

// Probe implements provider.Prober.
func (p prober) Probe(ctx context.Context, t provider.Target) (bool, error) {
	in, known := p.d.which(t)
	switch {
	case !known:
		return false, errors.ErrUnsupported
	case p.d.over(t):
		return false, nil
	case p.d.ByClock && !t.AcceptedAt.IsZero():
		if t.Now.Before(t.AcceptedAt.Add(p.d.Party.Traits.Revocability.Bound)) {
			return false, fmt.Errorf("the revocation has not taken effect: %w", errors.ErrUnsupported)
		}
		return false, nil
	}
	out, err := p.d.call(ctx, OpProbe, in)
	return out.Alive, err
}

// List implements provider.Lister.
func (l lister) List(ctx context.Context, instance string, yield func(provider.Target) error) error {
	out, err := l.d.call(ctx, OpList, message{})
	if err != nil {
		return err
	}
	for _, name := range out.Names {
		if id, mine := provider.LeaseOf(instance, name); mine {
			if err := yield(provider.Target{LeaseID: id, Instance: instance}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *driver) call(ctx context.Context, op string, in message) (out message, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/"+op, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return out, err
	}
	body, err := provider.ReadBody(resp, 8<<20)
	if err != nil {
		return out, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		after, _ := provider.RetryAfter(resp.Header, time.Now())
		return out, &provider.BusyError{After: max(after, time.Second), Cause: errors.New("429")}
	case http.StatusForbidden:
		return out, provider.Refused("The upstream does not do this.", nil)
	case http.StatusNotImplemented:
		return out, fmt.Errorf("the upstream does not know the state: %w", errors.ErrUnsupported)
	default:
		return out, fmt.Errorf("the upstream answered %d: %s", resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("the upstream's answer: %w", err)
	}
	return out, nil
}

func randomText() string { return rand.Text() }
