package attest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	maxSelectors     = 64
	maxSelectorName  = 128
	maxSelectorValue = 2048
)

// CheckSelectors says whether a registration makes sense: 1 to 64 selectors,
// none with an empty name or value. An empty registration is refused because it
// would match every sandbox.
func CheckSelectors(want map[string]string) error {
	if len(want) == 0 {
		return errors.New("attest: no selectors; register at least one, such as sub")
	}
	if len(want) > maxSelectors {
		return fmt.Errorf("attest: more than %d selectors", maxSelectors)
	}
	for name, value := range want {
		if name == "" || len(name) > maxSelectorName || value == "" || len(value) > maxSelectorValue {
			return fmt.Errorf("attest: a selector needs a name of 1 to %d bytes and a value of 1 to %d", maxSelectorName, maxSelectorValue)
		}
	}
	return nil
}

// SelectorMatch says whether an identity is the one that was registered: every
// registered selector must be present and equal, byte for byte. There are no
// prefixes, no globs and no letter-case folding: "team/a" is not "team/ab", and
// a registered "*" matches only "*". What the identity has beyond is ignored.
// A mismatch matches ErrRejected; a senseless registration does not, because it
// is not the caller's fault.
func SelectorMatch(want map[string]string, got Identity) error {
	if err := CheckSelectors(want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, found := got.Selectors[name]; !found || value != want[name] {
			return Reject(ReasonSelectors, "the sandbox is not the one that was registered for the task",
				fmt.Errorf("selector %q is absent or different", name))
		}
	}
	return nil
}
