// Package seal keeps revocation handles, and whatever else of a third party must
// be kept, unreadable at rest. Two tiers of keys: data keys seal handles, and live
// wrapped in the database beside them, so that replicas share them; a wrapping key
// that lives elsewhere opens data keys.
//
//	box.go     the sealed form: AES-256-GCM, key id in front, lease id bound to it
//	seal.go    Wrapper, Store, and Ring: which data key seals, which open
//	move.go    Moved: from one place of the wrapping key to another
//	load.go    Ring.Maintain: load, first key, next key, keys wrapped anew
//
// A folder below is one place where the wrapping key can live; all lists them, and
// sealtest is the suite that each passes.
//
// Nothing is guessed: when the store holds keys that the wrapping key does not
// open, no new data key is made, because other replicas could not read what it
// seals. Sealing fails closed, and revocations wait until the key is back.
package seal
