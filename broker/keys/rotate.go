package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Maintain is to be called every minute or so: it picks up keys that other
// replicas made, makes the next key when it is due, and archives the keys whose
// grace has passed. It is idempotent; after an error the ring goes on as it was.
func (d *Dir) Maintain(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reload(now); err != nil {
		return err
	}
	entries := d.ring.entries()
	current := entries[active(entries, now)]
	due := !now.Before(current.RetireAt.Add(-d.cfg.Policy.Lead))
	if due || current.Alg != d.cfg.Policy.Alg {
		if _, err := d.next(now); err != nil {
			return err
		}
	}
	return d.archive(now)
}

// Rotate makes the next key whether or not it is due, and returns its kid. It
// signs after the lead, so that verifiers have seen it. When the next key
// exists already, of this or another replica, that one is returned.
func (d *Dir) Rotate(now time.Time) (kid string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reload(now); err != nil {
		return "", err
	}
	return d.next(now)
}

// Revoke gives up a key that others may have: its private half is removed, its public half stays, and
// tokens that it signed are refused. Without another key that signs, a new one signs at once.
func (d *Dir) Revoke(now time.Time, kid string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reload(now); err != nil {
		return err
	}
	n, known := d.num[kid]
	if !known {
		return fmt.Errorf("keys: %s has no private key %s", d.cfg.Dir, kid)
	}
	entries := d.ring.entries()
	at := slices.IndexFunc(entries, func(e entry) bool { return e.KID == kid })
	if active(entries, now) == at {
		if _, err := d.create(now, now); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := d.forget(entries[at], n); err != nil {
		return err
	}
	return d.reload(now)
}

func (d *Dir) reload(now time.Time) error {
	keys, err := d.load()
	if err != nil {
		return err
	}
	if keys, err = d.past(keys, now); err != nil {
		return err
	}
	return d.ring.Replace(keys...)
}

func (d *Dir) next(now time.Time) (string, error) {
	entries := d.ring.entries()
	i := active(entries, now)
	if newest := entries[len(entries)-1]; len(entries)-1 > i {
		return newest.KID, nil
	}
	name, err := d.create(now, now.Add(d.cfg.Policy.Lead))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := d.reload(now); err != nil {
		return "", err
	}
	entries = d.ring.entries()
	made := entries[len(entries)-1]
	if err == nil {
		d.cfg.Log.Info("signing key made", slog.String("file", name), slog.String("kid", made.KID), slog.Time("active_from", made.ActiveFrom))
	}
	return made.KID, nil
}

// create writes a new key under the next free number. fs.ErrExist: another
// replica took that number first, and its key is as good.
func (d *Dir) create(now, start time.Time) (name string, err error) {
	signer, err := generate(d.cfg.Policy.Alg)
	if err != nil {
		return "", err
	}
	k, err := NewKey(signer, now, start, start.Add(d.cfg.Policy.RotateEvery))
	if err != nil {
		return "", err
	}
	text, err := encodeKey(k)
	if err != nil {
		return "", err
	}
	name = keyName(d.last+1) + ".key"
	return name, secret.WriteFile(filepath.Join(d.cfg.Dir, name), text)
}

// archive replaces the private key files that nothing unexpired depends on by
// their public half. Writing comes before removing: a crash between leaves
// both, and the next run removes the first.
func (d *Dir) archive(now time.Time) error {
	var keep []Key
	for _, e := range d.ring.entries() {
		if d.ring.listed(e, now.Add(-skew)) {
			keep = append(keep, e.Key)
			continue
		}
		if err := d.forget(e, d.num[e.KID]); err != nil {
			return err
		}
	}
	return d.ring.Replace(keep...)
}

// forget replaces a private key file by its public half.
func (d *Dir) forget(e entry, number int) error {
	jwk, err := jose.MarshalPublicJWK(e.pub)
	if err != nil {
		return fmt.Errorf("keys: archive: %w", err)
	}
	name := keyName(number)
	if err := secret.WriteFile(filepath.Join(d.cfg.Dir, name+".pub"), jwk); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Remove(filepath.Join(d.cfg.Dir, name+".key")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: archive: %w", err)
	}
	if err := secret.SyncDir(d.cfg.Dir); err != nil {
		return err
	}
	d.cfg.Log.Info("signing key forgotten", slog.String("kid", e.KID))
	return nil
}
