package secretstore

import (
	"context"
	"fmt"
	"time"
)

const (
	resealPage = 100
	// resealTime bounds one call of the database.
	resealTime = 10 * time.Second
)

// Reseal seals every secret again that an older key sealed. It does not claim the secrets: a
// concurrent Exchange goes on, and its result is not overwritten. A secret that cannot be
// decrypted stays as it is for the next Reseal; the error counts these and wraps the first.
func (s *Store) Reseal(ctx context.Context) error {
	key := s.sealer.KeyID()
	if key == "" {
		return nil // no key is loaded; the sealer reports that itself
	}
	var closed []error
	for after := ""; ; {
		look, cancel := context.WithTimeout(ctx, resealTime)
		rows, err := s.store.SecretsNotBy(look, key, after, resealPage)
		cancel()
		if err != nil {
			return fmt.Errorf("secret store: %w", err)
		}
		for _, r := range rows {
			sealed, err := s.again(r)
			if err != nil {
				closed = append(closed, err)
				continue
			}
			swap, cancel := context.WithTimeout(ctx, resealTime)
			err = s.store.ResealSecret(swap, r.Name, r.Sealed, sealed)
			cancel()
			if err != nil {
				return fmt.Errorf("secret store: %s: %w", r.Name, err)
			}
		}
		if len(rows) < resealPage {
			break
		}
		after = rows[len(rows)-1].Name
	}
	if len(closed) > 0 {
		return fmt.Errorf("%d secrets cannot be sealed again, the first: %w", len(closed), closed[0])
	}
	return nil
}

// again returns the secret of r, sealed with the newest key.
func (s *Store) again(r Row) (string, error) {
	v, err := s.open(r)
	if err != nil {
		return "", err
	}
	sealed, err := s.sealer.Seal(bound(r.Name), v)
	if err != nil {
		return "", fmt.Errorf("secret store: %s: %w", r.Name, err)
	}
	return sealed, nil
}
