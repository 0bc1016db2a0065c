package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// secrets is a database with secrets, and the keys that seal them.
type secrets struct {
	*sqlstore.Store
	ring  *seal.Ring
	path  string // of the wrapping key
	clock *clock
}

func openSecrets(t *testing.T, url string) *secrets {
	t.Helper()
	d := &secrets{Store: open(t, url), path: filepath.Join(t.TempDir(), "seal.key"), clock: &clock{now: time.Now()}}
	d.ring = ring(t, d.Store, wrapper(t, d.path), d.clock)
	return d
}

// safe returns a secret store on the database by way of store, with the keys of this
// process.
func (d *secrets) safe(store secretstore.Database) *secretstore.Store {
	return secretstore.New(store, d.ring, d.clock.Now)
}

// restarted returns a secret store that has read its keys again from keys.
func (d *secrets) restarted(t *testing.T, keys seal.Store) *secretstore.Store {
	t.Helper()
	return secretstore.New(d.Store, ring(t, keys, wrapper(t, d.path), d.clock), d.clock.Now)
}

// rotate makes the next data key.
func (d *secrets) rotate(t *testing.T) {
	t.Helper()
	old := d.ring.KeyID()
	d.clock.add(2 * time.Hour)
	if err := d.ring.Maintain(t.Context()); err != nil || d.ring.KeyID() == old {
		t.Fatalf("the key did not rotate: %v", err)
	}
}

// left returns the names of the secrets that an older key has sealed.
func (d *secrets) left(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, row := range d.rows(t) {
		if !strings.Contains(row.Sealed, "."+d.ring.KeyID()+".") {
			out = append(out, row.Name)
		}
	}
	return out
}

func (d *secrets) rows(t *testing.T) []secretstore.Row {
	t.Helper()
	rows, err := d.Secrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// onlyNewest is a store that has lost every data key but the newest.
type onlyNewest struct{ seal.Store }

func (n onlyNewest) SealingKeys(ctx context.Context) ([]seal.Key, error) {
	ks, err := n.Store.SealingKeys(ctx)
	return ks[max(len(ks)-1, 0):], err
}

// After a rotation every secret is sealed by the new key, also when there is more than a
// page of them. The old key can then be removed. Nothing else of a row changes.
func TestSafeReseals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		d := openSecrets(t, empty(t))
		s := d.safe(d.Store)
		const many = 105
		for i := range many {
			put(t, s, fmt.Sprintf("n%d", i), strconv.Itoa(i))
		}
		before := d.rows(t)
		d.rotate(t)
		if n := len(d.left(t)); n != many {
			t.Fatalf("%d are under the old key", n)
		}
		if err := s.Reseal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := d.left(t); len(left) != 0 {
			t.Errorf("still under the old key: %v", left)
		}
		for i, after := range d.rows(t) {
			after.Sealed, before[i].Sealed = "", ""
			if after != before[i] {
				t.Errorf("resealing changed %+v to %+v", before[i], after)
			}
		}
		fresh := d.restarted(t, onlyNewest{d.Store})
		for i := range many {
			if got := get(t, fresh, fmt.Sprintf("n%d", i)); got != strconv.Itoa(i) {
				t.Errorf("n%d is %q without the old key", i, got)
			}
		}
	})
}

// A secret that cannot be opened does not stop the others, and is tried again the next
// time.
func TestSafeResealsWhatOpens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		d := openSecrets(t, empty(t))
		s := d.safe(d.Store)
		put(t, s, "a", "canary-a")
		put(t, s, "c", "canary-c")
		const odd = "s1.0000000000000000.AAAA"
		if err := d.PutSecret(t.Context(), secretstore.Row{Name: "b", Sealed: odd, ChangedAt: d.clock.Now()}); err != nil {
			t.Fatal(err)
		}
		d.rotate(t)
		err := s.Reseal(t.Context())
		if !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), "b") || strings.Contains(err.Error(), "canary") {
			t.Errorf("Reseal = %v", err)
		}
		if left := d.left(t); len(left) != 1 || left[0] != "b" {
			t.Errorf("still under the old key: %v", left)
		}
		if rows, err := d.Secrets(t.Context(), "b"); err != nil || rows[0].Sealed != odd {
			t.Errorf("it is %+v, %v", rows, err)
		}
	})
}

func TestSafeResealArguments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store := open(t, empty(t))
		for _, bad := range []struct {
			key string
			n   int
		}{{"", 1}, {"k", 0}, {"k", 1001}} {
			if _, err := store.SecretsNotBy(t.Context(), bad.key, "", bad.n); err == nil {
				t.Errorf("SecretsNotBy(%q, %d) answers", bad.key, bad.n)
			}
		}
		for _, bad := range [][3]string{{"", "x", "y"}, {"a", "", "y"}, {"a", "x", ""}, {"a", "x", "\x00"}} {
			if err := store.ResealSecret(t.Context(), bad[0], bad[1], bad[2]); err == nil {
				t.Errorf("ResealSecret(%q) is taken", bad)
			}
		}
	})
}

// halting is a store that fails after some swaps: before the next one, or after it with
// its answer lost.
type halting struct {
	secretstore.Database
	left  int
	after bool
}

func (h *halting) ResealSecret(ctx context.Context, name, from, to string) error {
	if h.left--; h.left >= 0 {
		return h.Database.ResealSecret(ctx, name, from, to)
	}
	if h.after {
		_ = h.Database.ResealSecret(ctx, name, from, to)
	}
	return errOff
}

// After a crash at any swap, every secret is sealed by one of the two keys, and the next
// run continues from there.
func TestSafeResealIsCut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		d := openSecrets(t, empty(t))
		names := []string{"a", "b", "c"}
		for _, name := range names {
			put(t, d.safe(d.Store), name, name)
		}
		for i := range 2 * len(names) {
			d.rotate(t)
			h := &halting{Database: d.Store, left: i / 2, after: i%2 == 1}
			if err := d.safe(h).Reseal(t.Context()); !errors.Is(err, errOff) {
				t.Errorf("Reseal = %v", err)
			}
			if got, want := len(d.left(t)), len(names)-(i+1)/2; got != want {
				t.Errorf("cut at %d: %d are under the old key, want %d", i, got, want)
			}
			again := d.restarted(t, d.Store)
			for _, name := range names {
				if got := get(t, again, name); got != name {
					t.Errorf("cut at %d: %s is %q", i, name, got)
				}
			}
			if err := again.Reseal(t.Context()); err != nil {
				t.Error(err)
			}
			if left := d.left(t); len(left) != 0 {
				t.Errorf("cut at %d: still under the old key: %v", i, left)
			}
		}
	})
}

// A new secret that was not yet written survives the resealing of its predecessor by
// another replica. A new secret does not survive when the predecessor was replaced, or
// removed and put again.
func TestSafeResealKeepsTheSuccessor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url := empty(t)
		mine, theirs := open(t, url), openSecrets(t, url)
		u := &unwilling{Database: mine}
		a, b := openSafe(t, u, mine, theirs.path, theirs.clock), theirs.safe(theirs.Store)
		for i, tt := range []struct {
			meanwhile func() error
			want      string
		}{
			{func() error { return nil }, "second"},
			{func() error { return b.Put(t.Context(), "n", secret.New("the operator's")) }, "the operator's"},
			{func() error {
				return errors.Join(b.Remove(t.Context(), "n"), b.Put(t.Context(), "n", secret.New("its namesake")))
			}, "its namesake"},
			{func() error { return b.Exchange(t.Context(), "n", hold, become("theirs")) }, "theirs"},
		} {
			put(t, a, "n", "first")
			u.strand(t, a, "second")
			theirs.clock.add(2 * hold)
			theirs.rotate(t)
			if err := errors.Join(tt.meanwhile(), b.Reseal(t.Context())); err != nil {
				t.Fatal(err)
			}
			if left := theirs.left(t); len(left) != 0 {
				t.Errorf("%d: still under the old key: %v", i, left)
			}
			exchanges(t, a, tt.want, "")
			if got := get(t, b, "n"); got != tt.want {
				t.Errorf("%d: it is %q", i, got)
			}
		}
	})
}

// Keys rotate and two replicas reseal while two others exchange: every exchange begins
// from the result of the previous one, and an operator's Put is never undone.
func TestSafeResealRaces(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url := empty(t)
		one := openSecrets(t, url)
		keyTime, store := one.clock, open(t, url)
		rings := []*seal.Ring{one.ring, ring(t, store, wrapper(t, one.path), keyTime)}
		safes := []*secretstore.Store{secretstore.New(one.Store, rings[0], nil), secretstore.New(store, rings[1], nil)}
		put(t, safes[0], "n", "0")
		put(t, safes[0], "put", "0")
		// A ring looks for new keys of other replicas every 5 s of its clock, which here
		// moves only when the test moves it.
		known := func(f func() error) error {
			for {
				if err := f(); !errors.Is(err, seal.ErrNoKey) {
					return err
				}
				keyTime.add(10 * time.Second)
			}
		}
		var done atomic.Bool
		var sealing, work sync.WaitGroup
		for i := range safes {
			sealing.Go(func() {
				for !done.Load() {
					keyTime.add(2 * time.Hour)
					if err := errors.Join(rings[i].Maintain(t.Context()), safes[i].Reseal(t.Context())); err != nil && !errors.Is(err, seal.ErrNoKey) {
						t.Error(err)
					}
				}
			})
		}
		const each = 20
		for i := range safes {
			work.Go(func() {
				for range each {
					if err := known(func() error { return safes[i].Exchange(t.Context(), "n", time.Minute, addOne) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Go(func() {
			for i := range each {
				v := strconv.Itoa(i)
				if err := safes[0].Put(t.Context(), "put", secret.New(v)); err != nil {
					t.Error(err)
				}
				var got secret.Secret
				err := known(func() (err error) { got, err = safes[0].Get(t.Context(), "put"); return err })
				if err != nil || got.Reveal() != v {
					t.Errorf("put %s, and it is %s, %v", v, got.Reveal(), err)
				}
			}
		})
		work.Wait()
		done.Store(true)
		sealing.Wait()
		keyTime.add(10 * time.Second)
		if got := get(t, safes[1], "n"); got != strconv.Itoa(2*each) {
			t.Errorf("after %d exchanges it is %s", 2*each, got)
		}
		if err := errors.Join(rings[0].Maintain(t.Context()), safes[0].Reseal(t.Context())); err != nil {
			t.Fatal(err)
		}
		if left := one.left(t); len(left) != 0 {
			t.Errorf("still under an old key: %v", left)
		}
	})
}
