package core_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// handles returns the sealed handles of leases that are not in a final state.
func (x *third) handles(t *testing.T) map[string]string {
	t.Helper()
	ls, err := x.db.Sealed(t.Context(), "none", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range ls {
		out[l.ID] = l.Upstream.Handle
	}
	return out
}

// newest is a store that has lost every data key but the newest.
type newest struct{ seal.Store }

func (n newest) SealingKeys(ctx context.Context) ([]seal.Key, error) {
	ks, err := n.Store.SealingKeys(ctx)
	return ks[max(len(ks)-1, 0):], err
}

// The sealing key is rotated. Handles sealed by the old key can be used for revocation while that
// key exists; all of them, and the operator's secrets, are resealed by the new one, and then the
// old one can be removed.
//
//ebb:invariant I3
func TestFaultSealingKeyRotated(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	var clock *brokertest.Clock
	now := func() time.Time {
		if clock == nil {
			return start
		}
		return clock.Now()
	}
	w, err := file.New(file.Config{Path: filepath.Join(t.TempDir(), "sealing.pem")})
	if err != nil {
		t.Fatal(err)
	}
	store := brokertest.OpenStore(t, filepath.Join(t.TempDir(), "keys.db"), now)
	ringOf := func(s seal.Store) *seal.Ring {
		r, err := seal.New(t.Context(), seal.Config{Wrapper: w, Store: s, RotateEvery: time.Minute, Now: now})
		if err != nil || r.Err() != nil {
			t.Fatal(err, r.Err())
		}
		return r
	}
	ring := ringOf(store)
	secrets := secretstore.New(store, ring, now)
	if err := secrets.Put(t.Context(), "n", secret.New("canary")); err != nil {
		t.Fatal(err)
	}
	x := thirdParty(t, shape{idle: true, party: brokertest.Party{ByHandle: true, Probes: true}, config: brokertest.Config{Start: start, Sealer: ring}})
	clock = x.Clock
	early, late := x.Open(t, upSpec()), x.Open(t, upSpec())
	minted(t, early, "up:a:read")
	for range 150 { // more than a page
		if _, err := late.Ask(t, "up:a:read"); err != nil {
			x.Clock.Add(20 * time.Second) // the rate of the task
			minted(t, late, "up:a:read")
		}
	}
	old := ring.KeyID()
	x.Clock.Add(2 * time.Minute)
	if err := ring.Maintain(t.Context()); err != nil || ring.KeyID() == old {
		t.Fatalf("not rotated: %v", err)
	}
	// In between: sealed by the old key, revoked with it.
	run := func(b *core.Broker, until func()) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		until()
		stop()
		running.Wait()
	}
	x.closed(t, early.Task.ID)
	for id, h := range x.handles(t) {
		if !strings.Contains(h, "."+old+".") {
			t.Fatalf("%s is not sealed by the old key", id)
		}
	}
	run(x.replica(t, func(c *core.Config) { c.Sealer, c.Secrets = ring, secrets }), func() {
		x.settled(t, early.Task.ID)
		eventually(t, "all are sealed by the new key", func() bool {
			for _, h := range x.handles(t) {
				if strings.Contains(h, "."+old+".") {
					return false
				}
			}
			rows, err := store.Secrets(t.Context())
			return err == nil && len(rows) == 1 && !strings.Contains(rows[0].Sealed, "."+old+".")
		})
	})
	if got, err := secretstore.New(store, ringOf(newest{store}), now).Get(t.Context(), "n"); err != nil || got.Reveal() != "canary" {
		t.Errorf("without the old key the secret is not to be had: %v", err)
	}
	if n := len(x.handles(t)); n != 150 {
		t.Fatalf("%d handles", n)
	}
	// The old key is removed for good.
	after := x.replica(t, func(c *core.Config) { c.Sealer = ringOf(newest{store}) })
	run(after, func() {
		x.closed(t, late.Task.ID)
		x.settled(t, late.Task.ID)
	})
	if alive := x.up.Alive(); len(alive) != 0 {
		t.Errorf("%d alive at the provider", len(alive))
	}
	for _, l := range append(x.leases(t, early.Task.ID), x.leases(t, late.Task.ID)...) {
		if l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofProbed {
			t.Errorf("lease %+v %+v", l, l.Upstream)
		}
	}
}
