package main

import (
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/keys"
)

// lossNext is the next step that an error about missing entries names.
const lossNext = "restore the newer database; if it cannot be recovered, stop every ebb that uses it and run `ebb audit accept-loss`"

// markStores returns the stores of high-water marks by name: the key directory,
// and Redis if it is configured.
func markStores(dir *keys.Dir, keysDir string, liveStore broker.LiveStore) map[string]broker.MarkStore {
	stores := map[string]broker.MarkStore{keysDir: dir}
	if s, is := liveStore.(broker.MarkStore); is {
		stores["Redis"] = s
	}
	return stores
}

// knownKeys returns every public key of the directory, to verify high-water
// marks.
func knownKeys(dir *keys.Dir) (jose.KeySet, error) {
	all, err := dir.Public()
	if err != nil {
		return jose.KeySet{}, err
	}
	return jose.NewKeySet(all...)
}
