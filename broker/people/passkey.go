package people

import (
	"context"
	"errors"
	"time"
)

// Passkey is one that a person has registered (Web Authentication Level 3, section 4).
type Passkey struct {
	ID        []byte
	Person    string // id of the principal
	Name      string // by the person
	PublicKey []byte // COSE (RFC 9052 section 7)
	Count     uint32 // of signatures, as the authenticator last said
	Synced    bool   // it may be on more than one device
	CreatedAt time.Time
	UsedAt    time.Time // zero = never
}

var (
	// ErrNoPasskey is wrapped when there is no such passkey of this person.
	ErrNoPasskey = errors.New("there is no such passkey")
	// ErrCounted is wrapped when a passkey has been used more often meanwhile.
	ErrCounted = errors.New("the passkey was used more often than it says")
)

// MaxPasskeys is how many a person may have.
const MaxPasskeys = 20

// PasskeyStore keeps passkeys; replicas share it.
type PasskeyStore interface {
	// AddPasskey keeps a new one. An id that is known is refused, whoever has it.
	AddPasskey(ctx context.Context, p Passkey) error
	// Passkeys returns those of a person, the oldest first.
	Passkeys(ctx context.Context, person string) ([]Passkey, error)
	// UsePasskey notes a use, which must count up unless both are 0: ErrCounted, ErrNoPasskey.
	UsePasskey(ctx context.Context, person string, id []byte, count uint32, at time.Time) error
	// RemovePasskey forgets one: ErrNoPasskey.
	RemovePasskey(ctx context.Context, person string, id []byte) error
}

// PasskeyNames lets a person call a passkey otherwise.
type PasskeyNames interface {
	// RenamePasskey changes the name alone: ErrNoPasskey.
	RenamePasskey(ctx context.Context, person string, id []byte, name string) error
}
