package sqlstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

var (
	_ people.PasskeyStore = (*peopleStore)(nil)
	_ people.PasskeyNames = (*peopleStore)(nil)
)

const passkeyColumns = "id, person, name, public_key, uses, synced, created_at, used_at"

// AddPasskey implements people.PasskeyStore.
func (s *peopleStore) AddPasskey(ctx context.Context, p people.Passkey) error {
	if len(p.ID) == 0 || len(p.ID) > 1023 || len(p.PublicKey) == 0 || p.Person == "" || p.CreatedAt.IsZero() || storable(p.Person, p.Name) != nil {
		return errors.New("passkey: an id of 1 to 1023 bytes, a key, a person and a time are required, with texts in UTF-8")
	}
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "INSERT INTO passkeys ("+passkeyColumns+") VALUES ("+marks(8)+")",
			hex.EncodeToString(p.ID), p.Person, p.Name, hex.EncodeToString(p.PublicKey), int64(p.Count), flag(p.Synced), millis(p.CreatedAt), millis(p.UsedAt))
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("keeping a passkey: %w", err)
	}
	return nil
}

// Passkeys implements people.PasskeyStore.
func (s *peopleStore) Passkeys(ctx context.Context, person string) ([]people.Passkey, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+passkeyColumns+" FROM passkeys WHERE person = ? ORDER BY created_at, id", []any{person}, scanPasskey)
	if err != nil {
		return nil, fmt.Errorf("passkeys: %w", s.engine.explain(err))
	}
	return found, nil
}

func scanPasskey(row scan) (people.Passkey, error) {
	var p people.Passkey
	var id, key string
	var count, synced, created, used int64
	if err := row(&id, &p.Person, &p.Name, &key, &count, &synced, &created, &used); err != nil {
		return p, err
	}
	var errs [2]error
	p.ID, errs[0] = hex.DecodeString(id)
	p.PublicKey, errs[1] = hex.DecodeString(key)
	p.Count, p.Synced, p.CreatedAt, p.UsedAt = uint32(count), synced != 0, fromMillis(created), fromMillis(used) //nolint:gosec // G115: it was one
	return p, errors.Join(errs[:]...)
}

// UsePasskey implements people.PasskeyStore. Of two concurrent uses with one count, one
// wins.
func (s *peopleStore) UsePasskey(ctx context.Context, person string, id []byte, count uint32, at time.Time) error {
	return s.onPasskey(ctx, person, id, people.ErrCounted, "UPDATE passkeys SET uses = ?, used_at = ? WHERE (uses < ? OR (uses = 0 AND ? = 0)) AND id = ? AND person = ?",
		int64(count), millis(at), int64(count), int64(count))
}

// RenamePasskey implements people.PasskeyNames.
func (s *peopleStore) RenamePasskey(ctx context.Context, person string, id []byte, name string) error {
	if err := storable(name); err != nil {
		return fmt.Errorf("passkey: %w", err)
	}
	return s.onPasskey(ctx, person, id, people.ErrNoPasskey, "UPDATE passkeys SET name = ? WHERE id = ? AND person = ?", name)
}

// RemovePasskey implements people.PasskeyStore.
func (s *peopleStore) RemovePasskey(ctx context.Context, person string, id []byte) error {
	return s.onPasskey(ctx, person, id, people.ErrNoPasskey, "DELETE FROM passkeys WHERE id = ? AND person = ?")
}

// onPasskey runs a statement whose last parameters are the id and the person. It returns
// untouched when the passkey exists but the statement changed no row.
func (s *peopleStore) onPasskey(ctx context.Context, person string, id []byte, untouched error, text string, args ...any) error {
	name := hex.EncodeToString(id)
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, text, append(args, name, person)...)
		if err != nil || n > 0 {
			return nil, err
		}
		there, err := exists(ctx, sess, "SELECT 1 FROM passkeys WHERE id = ? AND person = ?", name, person)
		if !there {
			return people.ErrNoPasskey, err
		}
		return untouched, err
	})
	if err != nil {
		return fmt.Errorf("passkey: %w", err)
	}
	return nil
}
