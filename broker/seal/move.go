package seal

import (
	"context"
	"errors"
)

// Moved wraps with to and opens also what from has wrapped: data keys move to
// another place as a Ring maintains them, and then from is not needed any more.
func Moved(to, from Wrapper) Wrapper { return moved{to, from} }

type moved struct {
	Wrapper         // Stale is true of what it does not know
	from    Wrapper // opens only
}

// Unwrap implements Wrapper.
func (m moved) Unwrap(ctx context.Context, id, wrapped string) ([]byte, error) {
	key, err := m.Wrapper.Unwrap(ctx, id, wrapped)
	if !errors.Is(err, ErrNoKey) {
		return key, err
	}
	key, old := m.from.Unwrap(ctx, id, wrapped)
	if old != nil {
		return nil, errors.Join(err, old)
	}
	return key, nil
}
