package sqlstore_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// openSafe returns the secret store of one replica on a database that others may share.
func openSafe(t *testing.T, store secretstore.Database, keys *sqlstore.Store, path string, c *clock) *secretstore.Store {
	t.Helper()
	return secretstore.New(store, ring(t, keys, wrapper(t, path), c), c.Now)
}

func get(t *testing.T, s *secretstore.Store, name string) string {
	t.Helper()
	v, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return v.Reveal()
}

func put(t *testing.T, s *secretstore.Store, name, v string) {
	t.Helper()
	if err := s.Put(t.Context(), name, secret.New(v)); err != nil {
		t.Fatal(err)
	}
}

func become(v string) func(context.Context, secret.Secret) (secret.Secret, error) {
	return func(context.Context, secret.Secret) (secret.Secret, error) { return secret.New(v), nil }
}

// addOne exchanges a number for the next one.
func addOne(_ context.Context, old secret.Secret) (secret.Secret, error) {
	n, err := strconv.Atoi(old.Reveal())
	return secret.New(strconv.Itoa(n + 1)), err
}

// exchanges makes s exchange the secret n, whose value must be want, for next. If next is
// "", the exchange returns an empty secret.
func exchanges(t *testing.T, s *secretstore.Store, want, next string) {
	t.Helper()
	err := s.Exchange(t.Context(), "n", hold, func(_ context.Context, old secret.Secret) (secret.Secret, error) {
		if old.Reveal() != want {
			t.Errorf("the exchange sees %q, want %q", old.Reveal(), want)
		}
		return secret.New(next), nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSafeKeepsSecrets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, path := open(t, empty(t)), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		s := openSafe(t, store, store, path, c)
		if _, err := s.Get(t.Context(), "token"); !errors.Is(err, secretstore.ErrNone) {
			t.Errorf("Get of none = %v", err)
		}
		for _, v := range []string{"canary-1", "canary-2"} {
			put(t, s, "token", v)
			if got := get(t, s, "token"); got != v {
				t.Errorf("Get = %q", got)
			}
		}
		for _, bad := range []string{"", "A", "a/b", "1a", strings.Repeat("a", 65), "a b", "a\x00"} {
			if err := s.Put(t.Context(), bad, secret.New("x")); !errors.Is(err, secretstore.ErrName) {
				t.Errorf("Put(%q) = %v", bad, err)
			}
		}
		if err := s.Put(t.Context(), "token", secret.Secret{}); err == nil {
			t.Error("nothing was kept as a secret")
		}
		rows, err := store.Secrets(t.Context())
		if err != nil || len(rows) != 1 || strings.Contains(rows[0].Sealed, "canary") {
			t.Fatalf("the database holds %+v, %v", rows, err)
		}
		// A secret does not open under another name, nor as a handle.
		rows[0].Name = "other"
		if err := store.PutSecret(t.Context(), rows[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "other"); err == nil {
			t.Error("a secret opens under another name")
		}
		names, err := s.Names(t.Context())
		if err != nil || len(names) != 2 || names[0].Sealed != "" {
			t.Errorf("Names = %+v, %v", names, err)
		}
		if err := s.Remove(t.Context(), "token"); err != nil {
			t.Error(err)
		}
		if err := s.Remove(t.Context(), "token"); !errors.Is(err, secretstore.ErrNone) {
			t.Errorf("Remove of none = %v", err)
		}
		if err := s.Exchange(t.Context(), "token", time.Second, become("x")); !errors.Is(err, secretstore.ErrNone) {
			t.Errorf("Exchange of none = %v", err)
		}
	})
}

// A refresh token is used once: with any number of replicas, each exchange gets the
// result of the previous one.
func TestSafeExchangesOneAtATime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url, path := empty(t), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		a, b := open(t, url), open(t, url)
		safes := []*secretstore.Store{openSafe(t, a, a, path, c), openSafe(t, b, b, path, c)}
		put(t, safes[0], "n", "0")
		var inside atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				err := safes[i%2].Exchange(t.Context(), "n", time.Minute, func(ctx context.Context, old secret.Secret) (secret.Secret, error) {
					if inside.Add(1) != 1 {
						t.Error("two hold it")
					}
					defer inside.Add(-1)
					return addOne(ctx, old)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := get(t, safes[1], "n"); got != "16" {
			t.Errorf("after 16 exchanges it is %s", got)
		}
	})
}

// hold is the claim time that providers use.
const hold = 30 * time.Second

// A holder that does not settle in time loses its claim, and its late result is refused:
// the others have continued from another secret.
func TestSafeLateHolder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, path := open(t, empty(t)), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		s := openSafe(t, store, store, path, c)
		put(t, s, "n", "0")
		err := s.Exchange(t.Context(), "n", hold, func(ctx context.Context, _ secret.Secret) (secret.Secret, error) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > hold*3/4 {
				t.Error("the work may go on longer than its claim")
			}
			c.add(2 * hold)
			if err := s.Exchange(ctx, "n", hold, become("theirs")); err != nil {
				t.Error(err)
			}
			return secret.New("mine"), nil
		})
		if !errors.Is(err, secretstore.ErrHeld) {
			t.Errorf("the late holder's Exchange = %v", err)
		}
		if got := get(t, s, "n"); got != "theirs" {
			t.Errorf("it is %q", got)
		}
		// An operator's Put does not wait and is not overwritten.
		err = s.Exchange(t.Context(), "n", hold, func(ctx context.Context, _ secret.Secret) (secret.Secret, error) {
			return secret.New("rotated"), s.Put(ctx, "n", secret.New("the operator's"))
		})
		if got := get(t, s, "n"); err == nil || got != "the operator's" {
			t.Errorf("it is %q, %v", got, err)
		}
		err = s.Exchange(t.Context(), "n", hold, func(ctx context.Context, _ secret.Secret) (secret.Secret, error) {
			waits, cancel := context.WithTimeout(ctx, 8*time.Second) // it must poll at least once
			defer cancel()
			if err := s.Exchange(waits, "n", hold, become("x")); !errors.Is(err, secretstore.ErrHeld) {
				t.Errorf("an exchange while it is held = %v", err)
			}
			return secret.Secret{}, errors.New("nothing came of it")
		})
		if got := get(t, s, "n"); err == nil || got != "the operator's" {
			t.Errorf("after a failure it is %q, %v", got, err)
		}
	})
}

// unwilling is a store that refuses settlements while off is set.
type unwilling struct {
	secretstore.Database
	off atomic.Bool
}

var errOff = errors.New("the database is away")

func (u *unwilling) SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error {
	if u.off.Load() {
		return errOff
	}
	return u.Database.SettleSecret(ctx, name, fence, sealed, at)
}

func (u *unwilling) PutSecret(ctx context.Context, r secretstore.Row) error {
	if u.off.Load() {
		return errOff
	}
	return u.Database.PutSecret(ctx, r)
}

// strand leaves s, whose store this is, with a new value of n that is not written.
func (u *unwilling) strand(t *testing.T, s *secretstore.Store, successor string) {
	t.Helper()
	u.off.Store(true)
	defer u.off.Store(false)
	if err := s.Exchange(t.Context(), "n", hold, become(successor)); !errors.Is(err, errOff) {
		t.Errorf("Exchange = %v", err)
	}
}

// The database fails between the exchange and its record. The old secret is used up, so
// the process keeps the new one in memory until it is written.
func TestSafeSuccessorThatWasNotWritten(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		store, path := open(t, empty(t)), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		u := &unwilling{Database: store}
		s := openSafe(t, u, store, path, c)
		put(t, s, "n", "first")
		u.strand(t, s, "second")
		u.off.Store(true)
		// An operator's Put and Remove fail as well.
		if s.Put(t.Context(), "n", secret.New("the operator's")) == nil || s.Remove(t.Context(), "n") == nil {
			t.Error("it was replaced")
		}
		u.off.Store(false)
		c.add(2 * hold)
		exchanges(t, s, "second", "")
		if got := get(t, s, "n"); got != "second" {
			t.Errorf("it is %q", got)
		}
	})
}

// The unwritten secret replaces only its own predecessor: a secret that an operator puts
// through another replica in the meantime is used, and not overwritten.
func TestSafeSuccessorOfAnother(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url, path := empty(t), filepath.Join(t.TempDir(), "seal.key")
		c := &clock{now: time.Now()}
		mine, theirs := open(t, url), open(t, url)
		u := &unwilling{Database: mine}
		a, b := openSafe(t, u, mine, path, c), openSafe(t, theirs, theirs, path, c)
		put(t, a, "n", "first")
		u.strand(t, a, "second")
		put(t, b, "n", "the operator's")
		c.add(2 * hold)
		for _, next := range []string{"", "its successor"} {
			exchanges(t, a, "the operator's", next)
			if got, want := get(t, b, "n"), cmp.Or(next, "the operator's"); got != want {
				t.Errorf("it is %q, not %q", got, want)
			}
		}
	})
}

// slow is a store that records how long its settlements may take.
type slow struct {
	secretstore.Database
	t     *testing.T
	until time.Duration
}

func (s *slow) SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error {
	end, ok := ctx.Deadline()
	if s.until = time.Until(end); !ok {
		s.t.Error("a settlement without an end")
	}
	return s.Database.SettleSecret(ctx, name, fence, sealed, at)
}

// The work and its record together end before the claim does, with a margin for the clock
// of another replica that is fast.
func TestSafeFitsIntoItsClaim(t *testing.T) {
	t.Parallel()
	store, path := open(t, "sqlite://"+filepath.Join(t.TempDir(), "ebb.db")), filepath.Join(t.TempDir(), "seal.key")
	w := &slow{Database: store, t: t}
	s := openSafe(t, w, store, path, &clock{now: time.Now()})
	put(t, s, "n", "first")
	var work time.Duration
	err := s.Exchange(t.Context(), "n", hold, func(ctx context.Context, _ secret.Secret) (secret.Secret, error) {
		end, _ := ctx.Deadline()
		work = time.Until(end)
		return secret.New("second"), nil
	})
	if err != nil || work <= 0 || w.until <= 0 || work+w.until > hold*9/10 {
		t.Errorf("the work has %s and its record %s of %s: %v", work, w.until, hold, err)
	}
}
