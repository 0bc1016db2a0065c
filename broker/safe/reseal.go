package safe

import (
	"context"
	"fmt"
	"time"
)

const (
	resealPage = 100
	// resealTime bounds one call of the store.
	resealTime = 10 * time.Second
)

// Reseal seals again, with the newest key, every secret that another one sealed. It
// takes no turn: whoever exchanges a secret meanwhile goes on, and what it leaves is
// not overwritten. What does not open stays as it is, for the next Reseal, and the
// error tells of the first.
func (s *Safe) Reseal(ctx context.Context) error {
	key := s.sealer.KeyID()
	if key == "" {
		return nil // there is no key, which its keeper tells
	}
	var closed []error
	for after := ""; ; {
		look, cancel := context.WithTimeout(ctx, resealTime)
		rows, err := s.store.SecretsNotBy(look, key, after, resealPage)
		cancel()
		if err != nil {
			return fmt.Errorf("safe: %w", err)
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
				return fmt.Errorf("safe: %s: %w", r.Name, err)
			}
		}
		if len(rows) < resealPage {
			break
		}
		after = rows[len(rows)-1].Name
	}
	if len(closed) > 0 {
		return fmt.Errorf("%d secrets, the first: %w", len(closed), closed[0])
	}
	return nil
}

// again is the same secret, sealed with the newest key.
func (s *Safe) again(r Row) (string, error) {
	v, err := s.open(r)
	if err != nil {
		return "", err
	}
	sealed, err := s.sealer.Seal(bound(r.Name), v)
	if err != nil {
		return "", fmt.Errorf("safe: %s: %w", r.Name, err)
	}
	return sealed, nil
}
