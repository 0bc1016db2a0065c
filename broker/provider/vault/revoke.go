package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

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
