package broker

import "ebb/broker/provider"

// Sealer keeps revocation handles unreadable at rest (I8). What it returns names
// the key it used and opens only for the lease it was sealed for.
type Sealer interface {
	// Seal encrypts s with the newest key. sealed is printable ASCII, in which the
	// key's id stands between two dots and a dot nowhere else.
	Seal(leaseID string, s provider.Secret) (sealed string, err error)
	// Open fails when the key is not here, or when sealed was made for another
	// lease or was altered.
	Open(leaseID, sealed string) (provider.Secret, error)
	// KeyID names the key that Seal uses now, as it stands in what Seal returns.
	KeyID() string
	// Err is why some of it does not work now, or will not after the next start.
	Err() error
}
