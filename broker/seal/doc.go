// Package seal encrypts revocation handles and other third-party secrets at rest, with two tiers
// of keys. Data keys encrypt the secrets; they are stored wrapped in the database, so that
// replicas share them. A wrapping key outside of the database unwraps the data keys.
//
//	data_key.go  the sealed form: AES-256-GCM, with the key id as prefix and bound to the lease id
//	seal.go    Wrapper, Store, and Ring: the sealing data key and the keys that open; Moved: from
//	           one location of the wrapping key to another
//	load.go    Ring.Maintain: load keys, make the first and the next key, wrap keys again
//
// Each subdirectory implements one location of the wrapping key; all lists them, and sealtest is
// the test suite of each.
//
// If the store holds keys that the wrapping key does not open, the Ring makes no new data key,
// because other replicas could not read secrets that the new key seals. Sealing then fails, and
// revocations wait until the wrapping key is back.
package seal
