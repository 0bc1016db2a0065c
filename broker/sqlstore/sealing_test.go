package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/secret"
)

const leaseA, leaseB = "lse_0192f0c1a2b37c3d8e9f00112233aabb", "lse_0192f0c1a2b37c3d8e9f00112233aabc"

// wrapper reads the wrapping key of a file, and fails the test when it cannot.
func wrapper(t *testing.T, path string, previous ...string) *file.Wrapper {
	t.Helper()
	w, err := file.New(file.Config{Path: path, Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func ring(t *testing.T, store seal.Store, w seal.Wrapper, c *clock) *seal.Ring {
	t.Helper()
	r, err := seal.New(t.Context(), seal.Config{Wrapper: w, Store: store, Now: c.Now, RotateEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sealed(t *testing.T, r *seal.Ring) string {
	t.Helper()
	s, err := r.Seal(leaseA, secret.New("canary-handle"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opens(t *testing.T, r *seal.Ring, text string) {
	t.Helper()
	if s, err := r.Open(leaseA, text); err != nil || s.Reveal() != "canary-handle" {
		t.Errorf("Open = %v", err)
	}
}

// Replicas that share the database and the wrapping key open each other's handles, also
// those sealed by a key that was made after they had loaded.
func TestSealingKeysAreShared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url, path := empty(t), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		a := ring(t, open(t, url), wrapper(t, path), c)
		b := ring(t, open(t, url), wrapper(t, path), c)
		if a.KeyID() == "" || a.KeyID() != b.KeyID() {
			t.Fatalf("two replicas seal with %q and %q", a.KeyID(), b.KeyID())
		}
		first := sealed(t, a)
		opens(t, b, first)
		c.add(2 * time.Hour)
		if err := a.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.KeyID() == b.KeyID() {
			t.Fatal("the key did not rotate")
		}
		second := sealed(t, a)
		opens(t, b, second)
		opens(t, a, first)
		if b.KeyID() != a.KeyID() {
			t.Error("having seen the new key, the replica goes on sealing with the old one")
		}
	})
}

// Many replicas start at once on an empty database: whichever keys they make, every
// replica opens every handle.
func TestSealingKeysOfManyFirstStarts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url, path := empty(t), filepath.Join(t.TempDir(), "seal.key")
		store := open(t, url)
		c := &clock{now: time.Now()}
		rings, texts := make([]*seal.Ring, 8), make([]string, 8)
		var wg sync.WaitGroup
		for i := range rings {
			wg.Go(func() {
				w, err := file.New(file.Config{Path: path})
				if err == nil {
					rings[i], err = seal.New(t.Context(), seal.Config{Wrapper: w, Store: store, Now: c.Now})
				}
				if err == nil {
					texts[i], err = rings[i].Seal(leaseA, secret.New("canary-handle"))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c.add(time.Minute)
		for _, r := range rings {
			for _, text := range texts {
				opens(t, r, text)
			}
		}
	})
}

// With data keys that belong to another wrapping key, a ring seals nothing, opens
// nothing, and makes no key.
func TestSealingKeyOfSomebodyElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, dir := open(t, empty(t)), t.TempDir()
		c := &clock{now: time.Now()}
		mine := ring(t, store, wrapper(t, filepath.Join(dir, "mine.key")), c)
		text := sealed(t, mine)
		c.add(2 * time.Hour) // a rotation is due, too
		other := ring(t, store, wrapper(t, filepath.Join(dir, "other.key")), c)
		if err := other.Err(); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("Err = %v", err)
		}
		if _, err := other.Seal(leaseA, secret.New("x")); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("Seal = %v", err)
		}
		if _, err := other.Open(leaseA, text); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("Open = %v", err)
		}
		if keys, err := store.SealingKeys(t.Context()); err != nil || len(keys) != 1 {
			t.Errorf("there are %d keys, %v", len(keys), err)
		}
		// With the key available again everything opens, without a restart of the ring
		// that held it.
		opens(t, ring(t, store, wrapper(t, filepath.Join(dir, "other.key"), filepath.Join(dir, "mine.key")), c), text)
	})
}

// After a change of the wrapping key, data keys are wrapped with the new one, and the old
// file is not needed any more.
func TestSealingKeysAreWrappedAnew(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, dir := open(t, empty(t)), t.TempDir()
		before, after := filepath.Join(dir, "1.key"), filepath.Join(dir, "2.key")
		c := &clock{now: time.Now()}
		text := sealed(t, ring(t, store, wrapper(t, before), c))
		wrapper(t, after) // makes the file
		opens(t, ring(t, store, wrapper(t, after, before), c), text)
		if err := os.Remove(before); err != nil {
			t.Fatal(err)
		}
		opens(t, ring(t, store, wrapper(t, after), c), text)
	})
}

var errAway = errors.New("the wrapping key's place is away")

// flaky is a wrapping key that cannot be reached while away is set.
type flaky struct {
	seal.Wrapper
	mu   sync.Mutex
	away bool
}

func (f *flaky) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *flaky) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errAway
	}
	return nil
}

func (f *flaky) Wrap(ctx context.Context, id string, key []byte) (string, error) {
	if err := f.err(); err != nil {
		return "", err
	}
	return f.Wrapper.Wrap(ctx, id, key)
}

func (f *flaky) Unwrap(ctx context.Context, id, wrapped string) ([]byte, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Wrapper.Unwrap(ctx, id, wrapped)
}

func TestSealingWhileTheWrappingKeyIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, path := open(t, empty(t)), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		text := sealed(t, ring(t, store, wrapper(t, path), c))
		w := &flaky{Wrapper: wrapper(t, path), away: true}
		r := ring(t, store, w, c)
		if !errors.Is(r.Err(), errAway) || r.KeyID() != "" {
			t.Errorf("Err = %v, KeyID = %q", r.Err(), r.KeyID())
		}
		if _, err := r.Open(leaseA, text); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("Open = %v", err)
		}
		w.set(false)
		c.add(time.Minute)
		opens(t, r, text) // the ring retries by itself
		id := r.KeyID()
		w.set(true)
		c.add(2 * time.Hour)
		if err := r.Maintain(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Maintain = %v", err)
		}
		if r.KeyID() != id {
			t.Error("without a successor the old key must go on sealing")
		}
		opens(t, r, sealed(t, r))
	})
}

func TestSealingKeysInTheStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store := open(t, empty(t))
		at := time.Now().UTC().Truncate(time.Millisecond)
		two := []seal.Key{{ID: "b", Wrapped: "x", CreatedAt: at}, {ID: "a", Wrapped: "y", CreatedAt: at.Add(time.Second)}}
		for _, k := range two {
			if err := store.AddSealingKey(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if err := store.AddSealingKey(t.Context(), k); err == nil {
				t.Error("one id was added twice")
			}
		}
		for _, bad := range []seal.Key{{}, {ID: "c", Wrapped: "x"}, {ID: "c", CreatedAt: at}, {ID: "c", Wrapped: "\x00", CreatedAt: at}} {
			if err := store.AddSealingKey(t.Context(), bad); err == nil {
				t.Errorf("%+v was added", bad)
			}
		}
		if err := errors.Join(store.RewrapSealingKey(t.Context(), "a", "other", "z"), store.RewrapSealingKey(t.Context(), "b", "x", "w")); err != nil {
			t.Fatal(err)
		}
		two[0].Wrapped = "w"
		got, err := store.SealingKeys(t.Context())
		if err != nil || !slices.Equal(got, two) {
			t.Errorf("SealingKeys = %+v, %v", got, err)
		}
	})
}

// tampered is a store whose database an attacker writes too.
type tampered struct {
	seal.Store
	change func([]seal.Key) []seal.Key
}

func (s tampered) SealingKeys(ctx context.Context) ([]seal.Key, error) {
	ks, err := s.Store.SealingKeys(ctx)
	if err == nil && s.change != nil {
		ks = s.change(ks)
	}
	return ks, err
}

// An attacker who can write the database, and may know an old data key, cannot make that
// key the sealing key: neither by changing its row nor by adding a row with another id.
func TestSealingKeysDoNotRollBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	store := tampered{Store: open(t, "sqlite://"+filepath.Join(t.TempDir(), "ebb.db"))}
	c := &clock{now: time.Now()}
	r := ring(t, store, wrapper(t, path), c)
	old := r.KeyID()
	c.add(2 * time.Hour)
	if err := r.Maintain(t.Context()); err != nil || r.KeyID() == old {
		t.Fatalf("the key did not rotate (%v)", err)
	}
	newest := r.KeyID()
	for name, change := range map[string]func(k seal.Key) seal.Key{
		"its time": func(k seal.Key) seal.Key { k.CreatedAt = c.Now().Add(time.Hour); return k },
		"its id":   func(k seal.Key) seal.Key { k.ID = "f" + k.ID[1:]; return k },
		"a later id, not from the future": func(k seal.Key) seal.Key {
			k.ID = fmt.Sprintf("%08x", c.Now().Unix()) + "ffffffff"
			return k
		},
	} {
		store.change = func(ks []seal.Key) []seal.Key {
			ks = slices.Clone(ks)
			ks[0] = change(ks[0])
			slices.SortFunc(ks, func(a, b seal.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
			return ks
		}
		fresh, err := seal.New(t.Context(), seal.Config{Wrapper: wrapper(t, path), Store: store, Now: c.Now, RotateEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if got := fresh.KeyID(); got != newest && got != "" {
			t.Errorf("%s: %q seals, want %q or nothing", name, got, newest)
		}
	}
}
