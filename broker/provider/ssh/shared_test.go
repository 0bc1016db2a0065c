package ssh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// TestASharedFileNeverGoesBack: two replicas write one file. A replica that read the database
// before the other revoked a certificate must not remove the other's entry.
func TestASharedFileNeverGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krl")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = path })
	a, b := r.Driver, r.again(t)
	first, second := target(r.grant(t, "ssh:web/bo:login")), target(r.grant(t, "ssh:web/bo:login"))
	if _, err := b.KRL(t.Context()); err != nil { // b has read the record in this second
		t.Fatal(err)
	}
	r.record.set(nil, first)
	if err := a.Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	r.record.set(nil, first, second)
	if err := b.Revoke(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	inFile(t, r, path, first.LeaseID, true)
	inFile(t, r, path, second.LeaseID, true)
	// The first replica that writes the file removes the expired entries.
	r.clock.forward(time.Hour)
	third := target(r.grant(t, "ssh:web/bo:login"))
	r.record.set(nil, third)
	if err := b.Revoke(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	inFile(t, r, path, first.LeaseID, false)
	// While the record is away nothing is taken out.
	r.record.set(errors.New("the database is down"))
	if err := a.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); err == nil {
		t.Error("a list was written without the record")
	}
	inFile(t, r, path, third.LeaseID, true)
}

// TestReplicasRaceForOneFile: many replicas revoke at once. Each finds its own entry in the
// file when its call returns, and in the end the file has all entries.
func TestReplicasRaceForOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krl")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = path })
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 4 {
		d := r.again(t)
		wg.Go(func() {
			for range 20 {
				x := target(r.grant(t, "ssh:web/bo:login"))
				r.record.add(x)
				if err := d.Revoke(t.Context(), x); err != nil {
					t.Error(err)
				}
				inFile(t, r, path, x.LeaseID, true)
				mu.Lock()
				all = append(all, x.LeaseID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, lease := range all {
		inFile(t, r, path, lease, true)
	}
}

// TestTheLockIsHeld: a process that hangs with the lock delays the others only until their
// timeout.
func TestTheLockIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krl")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = path })
	l, err := os.Create(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	x := target(r.grant(t, "ssh:web/bo:login"))
	if err := r.Revoke(ctx, x); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "krl.lock") {
		t.Errorf("Revoke = %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Revoke(t.Context(), x); err != nil {
		t.Error(err)
	}
	inFile(t, r, path, x.LeaseID, true)
}

func inFile(t *testing.T, r *rig, path, lease string, want bool) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	l, err := krl.Parse(b)
	if err != nil {
		t.Error(err)
		return
	}
	if got := l.Revokes(krl.Subject{CA: trusted(t, r.Driver)[0].Marshal(), Serial: ssh.SerialOf(lease)}); got != want {
		t.Errorf("%s in the file: %v", lease, got)
	}
}
