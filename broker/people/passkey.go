package people

import (
	"context"
	"errors"
	"time"
)

// Passkey is a passkey that a person has registered (Web Authentication Level 3, section 4).
type Passkey struct {
	ID        []byte
	Person    string // id of the principal
	Name      string // by the person
	PublicKey []byte // COSE (RFC 9052 section 7)
	Count     uint32 // of signatures, as last reported by the authenticator
	Synced    bool   // it may be on more than one device
	CreatedAt time.Time
	UsedAt    time.Time // zero = never
}

var (
	// ErrNoPasskey is wrapped when the person has no such passkey.
	ErrNoPasskey = errors.New("passkey not found")
	// ErrCounted is wrapped when the counter of a passkey has not increased.
	ErrCounted = errors.New("the signature counter of the passkey did not increase: the passkey may be a copy")
)

// MaxPasskeys is the maximum number of passkeys of a person.
const MaxPasskeys = 20

// PasskeyStore stores passkeys; replicas share it.
type PasskeyStore interface {
	// AddPasskey stores a new passkey. It refuses an id that exists, for any person.
	AddPasskey(ctx context.Context, p Passkey) error
	// Passkeys returns the passkeys of a person, the oldest first.
	Passkeys(ctx context.Context, person string) ([]Passkey, error)
	// UsePasskey records a use, whose count must increase unless both counts are 0: ErrCounted,
	// ErrNoPasskey.
	UsePasskey(ctx context.Context, person string, id []byte, count uint32, at time.Time) error
	// RemovePasskey removes a passkey: ErrNoPasskey.
	RemovePasskey(ctx context.Context, person string, id []byte) error
}

// PasskeyNames renames passkeys.
type PasskeyNames interface {
	// RenamePasskey changes only the name: ErrNoPasskey.
	RenamePasskey(ctx context.Context, person string, id []byte, name string) error
}
