package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Maintain loads the stored data keys, makes the first key or the next one when it is due, and
// wraps data keys again after a change of the wrapping key. Call it every few minutes. Err returns
// its error, too.
func (r *Ring) Maintain(ctx context.Context) error {
	r.maintain.Lock()
	defer r.maintain.Unlock()
	err := r.load(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.looked = err, r.cfg.Now()
	return err
}

func (r *Ring) load(ctx context.Context) error {
	stored, err := r.cfg.Store.SealingKeys(ctx)
	if err != nil {
		return fmt.Errorf("seal: reading the data keys: %w", err)
	}
	closed := r.cfg.Wrapper.Check(ctx) // and of keys that do not open
	if closed != nil {
		closed = fmt.Errorf("seal: %w", closed)
	}
	for _, k := range stored {
		closed = errors.Join(closed, r.unwrap(ctx, k))
	}
	now := r.cfg.Now()
	newest := newestOf(stored, now)
	switch age := now.Sub(madeAt(newest.ID)); {
	case closed != nil && !r.has(newest.ID):
		// A new data key would be one that the other replicas cannot open.
		return closed
	case newest.ID == "" || age >= r.cfg.RotateEvery:
		made, err := r.next(ctx)
		if err != nil {
			if newest.ID != "" { // the old key continues to seal
				r.use(newest.ID)
			}
			return errors.Join(closed, err)
		}
		newest = made
	}
	r.use(newest.ID)
	return closed
}

// aheadBy is the tolerated lead of a replica's clock.
const aheadBy = 5 * time.Minute

// newestOf returns the sealing key. A key whose id names a future time, or has another form, is
// never it.
func newestOf(keys []Key, now time.Time) (newest Key) {
	for _, k := range keys {
		if idForm.MatchString(k.ID) && !madeAt(k.ID).After(now.Add(aheadBy)) && k.ID > newest.ID {
			newest = k
		}
	}
	return newest
}

// madeAt returns the time at which a key was made, from its id.
func madeAt(id string) time.Time {
	if !idForm.MatchString(id) {
		return time.Time{}
	}
	sec, _ := strconv.ParseUint(id[:8], 16, 32)
	return time.Unix(int64(sec), 0)
}

func (r *Ring) has(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.keys[id]
	return ok
}

func (r *Ring) use(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = id
}

func (r *Ring) keep(b dataKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[b.id] = b
}

// unwrap makes a stored key usable, once, and wraps it again after a change of the wrapping key.
func (r *Ring) unwrap(ctx context.Context, k Key) error {
	stale := r.cfg.Wrapper.Stale(ctx, k.Wrapped)
	if r.has(k.ID) && !stale {
		return nil
	}
	key, err := r.cfg.Wrapper.Unwrap(ctx, k.ID, k.Wrapped)
	if err != nil {
		return fmt.Errorf("seal: data key %s: %w", k.ID, err)
	}
	b, err := newDataKey(k.ID, key)
	if err != nil {
		return fmt.Errorf("seal: data key %s: %w", k.ID, err)
	}
	r.keep(b)
	if !stale {
		return nil
	}
	wrapped, err := r.wrap(ctx, k.ID, key)
	if err == nil {
		err = r.cfg.Store.RewrapSealingKey(ctx, k.ID, k.Wrapped, wrapped)
	}
	if err != nil { // it still opens: the next maintenance tries again
		r.cfg.Log.WarnContext(ctx, "a data key could not be wrapped by the new wrapping key", "key", k.ID, "error", err)
	}
	return nil
}

// wrap wraps a data key and unwraps it again as a check. Otherwise a missing permission to decrypt
// would show at the next start only, when the key is lost.
func (r *Ring) wrap(ctx context.Context, id string, key []byte) (string, error) {
	wrapped, err := r.cfg.Wrapper.Wrap(ctx, id, key)
	if err != nil {
		return "", err
	}
	again, err := r.cfg.Wrapper.Unwrap(ctx, id, wrapped)
	if err == nil && !bytes.Equal(again, key) {
		err = ErrDamaged
	}
	if err != nil {
		return "", fmt.Errorf("the new data key cannot be unwrapped again, so it is not used; check that ebb may decrypt with the wrapping key: %w", err)
	}
	return wrapped, nil
}

// next makes a data key, which is used only after the store has accepted it.
func (r *Ring) next(ctx context.Context) (Key, error) {
	key := make([]byte, keySize+4)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	now := r.cfg.Now()
	id, key := fmt.Sprintf("%08x%x", uint32(now.Unix()), key[keySize:]), key[:keySize] //nolint:gosec // until 2106
	b, err := newDataKey(id, key)
	if err != nil {
		return Key{}, err
	}
	wrapped, err := r.wrap(ctx, id, key)
	if err != nil {
		return Key{}, fmt.Errorf("seal: wrapping a new data key: %w", err)
	}
	k := Key{ID: id, Wrapped: wrapped, CreatedAt: now.UTC().Truncate(time.Millisecond)}
	if err := r.cfg.Store.AddSealingKey(ctx, k); err != nil {
		return Key{}, fmt.Errorf("seal: keeping a new data key: %w", err)
	}
	r.keep(b)
	return k, nil
}
