package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/sqlstore"
)

// A full disk makes Writable fail by the writes that fail, and by its own write where there are
// none; room makes it succeed again without a restart.
func TestWritableOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"after a write that failed": true, "without a write": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sqlstore.Config{URL: databases()["sqlite"](t)}
			withRoom(t, c.URL)
			s, err := sqlstore.OpenLimited(t.Context(), c, 1) // not a page more than it has
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			for i := 0; writes && s.Append(t.Context(), mint("tsk_1")) == nil; i++ {
				if i > 10_000 {
					t.Fatal("the disk does not get full")
				}
			}
			for range 3 {
				err := s.Writable(t.Context())
				if reason, ok := errors.AsType[broker.Reason](err); !ok || !strings.Contains(string(reason), "disk is full") {
					t.Fatalf("Writable on a full disk: %v", err)
				}
				s.Later(7 * time.Second)
			}
			if err := s.Say(t.Context(), "DROP TABLE room"); err != nil {
				t.Fatal(err)
			}
			s.Later(11 * time.Second)
			if err := s.Writable(t.Context()); err != nil {
				t.Errorf("Writable when there is room again: %v", err)
			}
		})
	}
}

// A probe that hangs is one probe, and nobody waits for it longer than they want.
func TestWritableWhileAWriteHangs(t *testing.T) {
	t.Parallel()
	s := open(t, databases()["sqlite"](t))
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() { done <- s.Hold(held, release) }()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Writable(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Writable while a write hangs: %v", err)
	}
	close(release)
	if err := errors.Join(<-done, s.Writable(t.Context())); err != nil {
		t.Error(err)
	}
}

// withRoom makes a database with a task, and with pages that the test can give back.
func withRoom(t *testing.T, url string) {
	t.Helper()
	s := mustOpenOne(t, open(t, url))
	for _, text := range []string{"CREATE TABLE room (x)", "INSERT INTO room VALUES (zeroblob(100000))"} {
		if err := s.Say(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
