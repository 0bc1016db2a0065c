package sqlstore_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// A kept row never outlives a change: a read that begins after a change has returned gets the new
// row, even while reads and changes run at the same time.
func TestKeptSecrets(t *testing.T) {
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + filepath.Join(t.TempDir(), "ebb.db"), Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const name = "n"
	now := time.Now()
	read := func() (r secretstore.Row, is bool) {
		rows, err := s.Secrets(t.Context(), name)
		if err != nil || len(rows) > 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		if len(rows) == 0 {
			return r, false
		}
		return rows[0], true
	}
	if _, is := read(); is {
		t.Fatal("a secret that was never stored was found")
	}
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			var last int64
			for {
				select {
				case <-done:
					return
				default:
				}
				if r, is := read(); is && r.Fence < last {
					t.Errorf("a read returned fence %d after %d", r.Fence, last)
				} else if is {
					last = r.Fence
				}
			}
		})
	}
	changes := []struct {
		name string
		do   func(sealed string) error
	}{
		{"put", func(sealed string) error {
			return s.PutSecret(t.Context(), secretstore.Row{Name: name, Sealed: sealed, ChangedAt: now})
		}},
		{"exchange", func(sealed string) error {
			claim, err := s.ClaimSecret(t.Context(), name, now, now.Add(time.Hour))
			if err != nil {
				return err
			}
			if r, is := read(); !is || r.Fence != claim.Fence {
				t.Errorf("after a claim the fence is %d, want %d", r.Fence, claim.Fence)
			}
			return s.SettleSecret(t.Context(), name, claim.Fence, sealed, now)
		}},
		{"reseal", func(sealed string) error {
			old, _ := read()
			return s.ResealSecret(t.Context(), name, old.Sealed, sealed)
		}},
	}
	for i := range 60 {
		c, sealed := changes[i%len(changes)], "sealed "+time.Duration(i).String()
		if err := c.do(sealed); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r, is := read(); !is || r.Sealed != sealed {
			t.Fatalf("after %s: %q, want %q", c.name, r.Sealed, sealed)
		}
	}
	if err := s.PutSecret(t.Context(), secretstore.Row{Name: name, ChangedAt: now.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if _, is := read(); is {
		t.Error("a removed secret was found")
	}
	if err := s.PutSecret(t.Context(), secretstore.Row{Name: name, ChangedAt: now}); !errors.Is(err, secretstore.ErrNone) {
		t.Errorf("a second removal: %v", err)
	}
	close(done)
	readers.Wait()
}
