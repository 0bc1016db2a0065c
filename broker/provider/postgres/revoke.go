package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// handle holds values that cannot be found by name after the role is dropped: its sessions are
// then known by the role's oid only. For a credential that stays in ebb, it is the only copy of
// the password.
type handle struct {
	Role     string `json:"role"`
	OID      uint32 `json:"oid"`
	Password string `json:"password,omitempty"`
}

// of returns the handle of a target; an intent has none.
func of(t provider.Target) (handle, error) {
	h := handle{Role: provider.Name(t.Instance, t.LeaseID)}
	if !t.Handle.Empty() {
		if err := json.Unmarshal([]byte(t.Handle.Reveal()), &h); err != nil {
			return h, errors.New("postgres: the handle is damaged")
		}
	}
	// Only roles with a name of this instance are ever dropped, at any content of the handle.
	if _, ok := provider.LeaseOf(t.Instance, h.Role); !ok {
		return h, errors.New("postgres: the handle names no role of this installation")
	}
	return h, nil
}

// oid is 0 when there is no such role.
func (d *Driver) oid(ctx context.Context, role string) (uint32, error) {
	var oid uint32
	err := d.pool.QueryRow(ctx, "SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1", role).Scan(&oid)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: looking for a role: %w", err)
	}
	return oid, nil
}

// Revoke ends a role: no new session, then no session, then no object, then no
// role. Each step may be repeated, and each is done by the state of the server
// rather than by what an earlier attempt believed.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	h, err := of(t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	oid, err := d.oid(ctx, h.Role)
	if err != nil {
		return err
	}
	if oid != 0 {
		if err := d.drop(ctx, h.Role, oid); err != nil {
			return err
		}
	}
	// The role of an earlier attempt may be gone while a session of it is not.
	for _, id := range []uint32{oid, h.OID} {
		if id != 0 {
			if err := d.terminate(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) drop(ctx context.Context, role string, oid uint32) error {
	_, err := d.pool.Exec(ctx, "ALTER ROLE "+quote(role)+" NOLOGIN CONNECTION LIMIT 0 PASSWORD NULL")
	if err != nil && code(err) != undefinedObject {
		return fmt.Errorf("postgres: locking a role: %w", err)
	}
	if err := d.terminate(ctx, oid); err != nil {
		return err
	}
	drop := func() error {
		_, err := d.pool.Exec(ctx, "DROP ROLE IF EXISTS "+quote(role))
		return err
	}
	err = drop()
	if code(err) == dependentObjects {
		if err = d.disown(ctx, role, oid); err == nil {
			err = drop()
		}
	}
	if err != nil {
		return fmt.Errorf("postgres: dropping a role: %w", err)
	}
	return nil
}

// terminate ends every session of a role, by oid: a session may have been opened
// just before the role was locked, and one of a dropped role has no name.
func (d *Driver) terminate(ctx context.Context, oid uint32) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		var open int
		err := d.pool.QueryRow(ctx, "SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(pid)) FROM pg_catalog.pg_stat_activity WHERE usesysid = $1", oid).Scan(&open)
		if err != nil {
			return fmt.Errorf("postgres: ending sessions: %w", err)
		}
		if open == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres: %d sessions go on: %w", open, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Probe implements provider.Prober: the server is asked whether the role could log
// in or has a session.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	h, err := of(t)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)
		OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE usename = $1 OR usesysid = nullif($2::pg_catalog.oid, 0::pg_catalog.oid))`, h.Role, h.OID).Scan(&alive)
	if err != nil {
		return false, fmt.Errorf("postgres: looking for a role: %w", err)
	}
	return alive, nil
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, instance string, yield func(provider.Target) error) error {
	rows, err := d.pool.Query(ctx, "SELECT rolname, oid FROM pg_catalog.pg_roles WHERE rolname LIKE 'ebb-%' ORDER BY rolname")
	if err != nil {
		return fmt.Errorf("postgres: listing roles: %w", err)
	}
	roles, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h handle, err error) { return h, row.Scan(&h.Role, &h.OID) })
	if err != nil {
		return fmt.Errorf("postgres: listing roles: %w", err)
	}
	for _, h := range roles {
		lease, ours := provider.LeaseOf(instance, h.Role)
		if !ours {
			continue
		}
		text, err := json.Marshal(h)
		if err != nil {
			return err
		}
		if err := yield(provider.Target{LeaseID: lease, Instance: instance, Handle: secret.New(string(text))}); err != nil {
			return err
		}
	}
	return nil
}
