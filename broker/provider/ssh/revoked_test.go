package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

func list(t testing.TB, d *ssh.Driver) []byte {
	t.Helper()
	l, err := d.KRL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.Marshal()
}

func TestRevokedAtOnceAfterARestartAndOnReplicas(t *testing.T) {
	r := newRig(t, nil)
	other := r.again(t)
	g, kept := r.grant(t, "ssh:web/bo:login"), r.grant(t, "ssh:web/bo:login")
	cert, alive := r.mint(t, g), r.mint(t, kept)
	if err := accepts(t, r.Driver, cert, "bo@web", r.clock.now()); err != nil {
		t.Fatal(err)
	}
	// The record says so before a driver is told.
	r.record.set(nil, target(g))
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	if accepts(t, r.Driver, cert, "bo@web", r.clock.now()) == nil {
		t.Error("it is accepted by who reads the list after Revoke")
	}
	for name, d := range map[string]*ssh.Driver{"restart": r.again(t), "replica": other} {
		if accepts(t, d, cert, "bo@web", r.clock.now()) == nil {
			t.Errorf("%s: it is accepted", name)
		}
		if err := accepts(t, d, alive, "bo@web", r.clock.now()); err != nil {
			t.Errorf("%s: the other certificate: %v", name, err)
		}
		if !bytes.Equal(list(t, d), list(t, r.Driver)) {
			t.Errorf("%s: the list has other bytes", name)
		}
	}
}

// TestALeaseWithoutOutcomeIsRevokedAllTheSame: a power failure between signing and recording
// leaves an intent without a handle.
func TestALeaseWithoutOutcomeIsRevokedAllTheSame(t *testing.T) {
	r := newRig(t, nil)
	g := r.grant(t, "ssh:web/bo:login")
	cert := r.mint(t, g)
	lost := provider.Target{LeaseID: g.LeaseID, Instance: instance, ExpiresAt: g.ExpiresAt}
	if err := r.again(t).Revoke(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	r.record.set(nil, lost)
	if accepts(t, r.again(t), cert, "bo@web", r.clock.now()) == nil {
		t.Error("it is accepted")
	}
}

func TestEntriesGoAfterExpiry(t *testing.T) {
	r := newRig(t, nil)
	empty := list(t, r.Driver)
	told, known := r.grant(t, "ssh:web/bo:login"), r.grant(t, "ssh:web/bo:login")
	r.record.set(nil, target(known))
	r.clock.forward(2 * time.Second) // what was read of it serves for one
	if err := r.Revoke(t.Context(), target(told)); err != nil {
		t.Fatal(err)
	}
	full := list(t, r.Driver)
	// A host's clock may be behind: the entries outlive the certificate.
	r.clock.forward(5*time.Minute + 9*time.Minute)
	if !bytes.Equal(list(t, r.Driver), full) {
		t.Error("an entry went with the certificate's expiry")
	}
	r.clock.forward(2 * time.Minute)
	if !bytes.Equal(list(t, r.Driver), empty) {
		t.Error("an entry stays for ever")
	}
	if err := r.Revoke(t.Context(), target(told)); err != nil || !bytes.Equal(list(t, r.Driver), empty) {
		t.Errorf("revoking what has expired: %v", err)
	}
}

// TestNoListWithoutTheRecord: an incomplete list would make certificates valid again, so
// without the database there is no list.
func TestNoListWithoutTheRecord(t *testing.T) {
	down := errors.New("database down")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = filepath.Join(t.TempDir(), "krl") })
	r.record.set(down)
	if _, err := r.KRL(t.Context()); !errors.Is(err, down) {
		t.Errorf("KRL = %v", err)
	}
	if err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); !errors.Is(err, down) {
		t.Errorf("Revoke = %v: nothing was published", err)
	}
	if _, err := os.Stat(r.o.KRL.File); !os.IsNotExist(err) {
		t.Error("a list was written that may leave something out")
	}
	r.record.set(nil)
	r.clock.forward(2 * time.Second)
	if err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

// TestReadersShareOneReading: the list is public, so a request for it must neither load the
// database nor make the reading fail for others.
func TestReadersShareOneReading(t *testing.T) {
	r := newRig(t, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = r.KRL(gone)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := r.KRL(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.record.reads > 2 {
		t.Errorf("the record was read %d times within a second", r.record.reads)
	}
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "krl")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = path })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	until(t, "the file is there at start", func() bool { b, err := os.ReadFile(path); return err == nil && bytes.Equal(b, list(t, r.Driver)) })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// Readers at any moment find a whole list, while many revoke.
	var writers, readers sync.WaitGroup
	finished := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-finished:
				return
			default:
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := krl.Parse(b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var mu sync.Mutex
	var revoked []string
	for range 16 {
		writers.Go(func() {
			for range 10 {
				g := r.grant(t, "ssh:web/bo:login")
				if err := r.Revoke(t.Context(), target(g)); err != nil {
					t.Error(err)
				}
				// The file must contain the serial of every Revoke that has returned.
				b, _ := os.ReadFile(path)
				l, err := krl.Parse(b)
				if err != nil || !l.Revokes(krl.Subject{CA: trusted(t, r.Driver)[0].Marshal(), Serial: ssh.SerialOf(g.LeaseID)}) {
					t.Errorf("the file lacks what was revoked: %v", err)
				}
				mu.Lock()
				revoked = append(revoked, g.LeaseID)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	close(finished)
	readers.Wait()
	if left, _ := filepath.Glob(dir + "/.ebb-krl-*"); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "krl")
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = path })
	err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login")))
	if err == nil || !strings.Contains(err.Error(), "was not written") {
		t.Errorf("Revoke = %v", err)
	}
	found := false
	for _, f := range r.CheckSetup(t.Context()) {
		found = found || f.Fatal && strings.Contains(f.What, "cannot be written")
	}
	if !found {
		t.Error("CheckSetup does not see it")
	}
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// A list of 10,000 revoked certificates, as a host fetches it.
func BenchmarkKRL(b *testing.B) {
	r := newRig(b, nil)
	var ended []provider.Target
	for range 10_000 {
		ended = append(ended, provider.Target{LeaseID: newLease(), ExpiresAt: r.clock.now().Add(time.Hour)})
	}
	r.record.set(nil, ended...)
	b.ReportAllocs()
	for b.Loop() {
		if len(list(b, r.Driver)) < 80_000 {
			b.Fatal("entries are missing")
		}
	}
}

// Ending a task of many certificates, 16 at a time, with the list in a file.
func BenchmarkRevokeIntoFile(b *testing.B) {
	r := newRig(b, func(o *ssh.Options) { o.KRL.File = filepath.Join(b.TempDir(), "krl") })
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := r.Revoke(b.Context(), provider.Target{LeaseID: newLease(), Instance: instance, ExpiresAt: r.clock.now().Add(time.Hour)}); err != nil {
				b.Error(err)
			}
		}
	})
}

// A clock that is ahead does not end a revocation: hosts read the list by their own clocks, where the
// certificate has not expired.
//
//ebb:invariant I3 While the clock is ahead, no SSH certificate leaves the revocation list or counts as expired because of that clock
func TestRevokedWhileTheClockIsAhead(t *testing.T) {
	const by = 48 * time.Hour
	for name, first := range map[string]bool{"revoked before": true, "revoked meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.clock.forward(2 * time.Hour) // the CA key is older than any time that the clock shows
			g := r.grant(t, "ssh:web/bo:login")
			cert, at := r.mint(t, g), r.clock.now()
			revoke := func() {
				if err := r.Revoke(t.Context(), target(g)); err != nil {
					t.Fatal(err)
				}
			}
			check := func(when string) {
				if accepts(t, r.Driver, cert, "bo@web", at) == nil {
					t.Errorf("%s: a host accepts it", when)
				}
				if alive, err := r.Probe(t.Context(), target(g)); !alive {
					t.Errorf("%s: the probe reports the certificate as refused (%v), but hosts may not have fetched the list", when, err)
				}
			}
			if first {
				revoke()
			}
			r.clock.jump(by)
			if !first {
				revoke()
			}
			check("ahead")
			r.clock.jump(-by)
			check("back")
			r.clock.jump(-time.Hour)
			check("behind")
			r.clock.jump(time.Hour)
			check("behind and back")
		})
	}
}

// If a list was published while the clock was behind, setting the clock right does not lengthen the time since then.
//
//ebb:invariant I3 An SSH certificate whose revocation was published while the clock was behind is not counted as refused when the clock returns
func TestPublishedWhileTheClockIsBehind(t *testing.T) {
	r := newRig(t, nil)
	g := r.grant(t, "ssh:web/bo:login")
	r.mint(t, g)
	r.clock.jump(-time.Hour)
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	r.clock.jump(time.Hour)
	if alive, err := r.Probe(t.Context(), target(g)); !alive {
		t.Errorf("the probe found it refused (%v)", err)
	}
	r.clock.forward(4 * time.Minute)
	if alive, err := r.Probe(t.Context(), target(g)); alive {
		t.Errorf("after the bound the probe found it accepted: %v", err)
	}
}
