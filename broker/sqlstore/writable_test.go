package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// On a full disk Writable fails because of failed writes, and without any writes because
// of its own probe. With free space it succeeds again without a restart.
//
//ebb:invariant I6 `/readyz` reports the outcome of recent database writes, and probes with its own write if there were none
func TestWritableOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"after a write that failed": true, "without a write": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sqlstore.Config{URL: databases()["sqlite"](t)}
			withRoom(t, c.URL)
			s, err := sqlstore.OpenLimited(t.Context(), c, 1) // the file cannot grow by a page
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

// While a probe hangs there is only that one, and each caller waits for it only until its
// own context ends.
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

// withRoom makes a database with a task, and with pages that the test can free.
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
