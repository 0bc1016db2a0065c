package aws

import (
	"sync"
	"testing"
	"time"
)

// TestTwoReplicasLoseNothing: two replicas without knowledge of each other write the same
// policy.
func TestTwoReplicasLoseNothing(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	cfg.Timeout = "10s"
	gs := newGrants(cl.now)
	a, b := driver(t, cfg), driver(t, cfg)
	ls := mintAll(t, a, gs, 60, "tsk_1")
	keep := mintAll(t, a, gs, 4, "tsk_2")
	var wg sync.WaitGroup
	for i, l := range ls {
		d := a
		if i%2 == 1 {
			d = b
		}
		wg.Go(func() {
			tg := gs.target(l.Grant, l.Credential)
			if err := d.Revoke(t.Context(), tg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// Another writer overwrites an entry after the driver has read it back. The broker's probe
	// at the bound detects that, and the broker revokes again.
	cl.pass(a.bound)
	for i, l := range ls {
		d := a
		if i%2 == 1 {
			d = b
		}
		for tries := 0; ; tries++ {
			isAlive, err := d.Probe(t.Context(), gs.target(l.Grant, l.Credential))
			if err != nil || tries > 3 {
				t.Fatalf("%v after %d tries", err, tries)
			}
			if !isAlive {
				break
			}
			if err := d.Revoke(t.Context(), gs.target(l.Grant, l.Credential)); err != nil {
				t.Fatal(err)
			}
			cl.pass(a.bound)
		}
	}
	if n := alive(t, cl, ls); n != 0 {
		t.Errorf("%d sessions are alive", n)
	}
	if n := alive(t, cl, keep); n > 4 {
		t.Errorf("%d neighbours", n)
	}
}

// TestOverwrittenEntryIsPutBack: another writer replaces the policy between the driver's read and
// its write. The driver detects the lost entry and writes it again, and has not reported the
// revocation as done before.
func TestOverwrittenEntryIsPutBack(t *testing.T) {
	cl := newCloud(t)
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	ls := mintAll(t, d, gs, 3, "tsk_1")
	revokeAll(t, d, gs, ls[:1])
	old := cl.inline("data-1")
	revokeAll(t, d, gs, ls[1:2])
	cl.mu.Lock()
	cl.roles["data-1"].inline[denyPolicy] = old // a replica whose write was late
	cl.mu.Unlock()
	if alive(t, cl, ls[1:2]) != 1 {
		t.Fatal("the test shows nothing")
	}
	cl.pass(d.bound)
	if isAlive, err := driver(t, cl.config()).Probe(t.Context(), gs.target(ls[1].Grant, ls[1].Credential)); err != nil || !isAlive {
		t.Errorf("Probe by a replica that has not written it: %v %v", isAlive, err)
	}
	revokeAll(t, d, gs, ls[2:]) // any next turn of the one that has puts it back
	if n := alive(t, cl, ls); n != 0 {
		t.Errorf("%d are alive", n)
	}
}

func TestIAMThatShowsWritesLate(t *testing.T) {
	cl := newCloud(t)
	cl.stale = 2
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	d.writer(cloudRoleA).pause = time.Millisecond
	ls := mintAll(t, d, gs, 2, "tsk_1")
	revokeAll(t, d, gs, ls[:1])
	if alive(t, cl, ls[:1]) != 0 || alive(t, cl, ls[1:]) != 1 {
		t.Error("not as asked")
	}
	if n := cl.count("PutRolePolicy"); n != 1 {
		t.Errorf("%d writes: a late answer was taken for a lost write", n)
	}
}
