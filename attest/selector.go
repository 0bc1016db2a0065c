package attest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxSelectors     = 64
	maxSelectorName  = 128
	maxSelectorValue = 2048
)

// CheckSelectors returns an error unless want has 1 to 64 selectors, each with a name
// of 1 to 128 bytes and a value of 1 to 2048 bytes. An empty registration is refused
// because it would match every sandbox.
func CheckSelectors(want map[string]string) error {
	if len(want) == 0 {
		return errors.New("attest: no selectors are registered; register at least one, such as sub")
	}
	if len(want) > maxSelectors {
		return fmt.Errorf("attest: %d selectors are registered; register at most %d", len(want), maxSelectors)
	}
	for name, value := range want {
		if name == "" || len(name) > maxSelectorName || value == "" || len(value) > maxSelectorValue {
			return fmt.Errorf("attest: a selector has an empty or too long name or value; the name needs 1 to %d bytes, the value 1 to %d", maxSelectorName, maxSelectorValue)
		}
	}
	return nil
}

// SelectorMatch returns nil when got has every registered selector with exactly the
// registered value, compared byte for byte. There are no prefixes, no globs and no
// letter-case folding: "team/a" does not match "team/ab", and a registered "*" matches
// only "*". Selectors of got that are not registered are ignored. A mismatch matches
// ErrRejected. A registration that CheckSelectors refuses does not match it, because
// the runner and not the caller made that mistake.
func SelectorMatch(want map[string]string, got Identity) error {
	if err := CheckSelectors(want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, found := got.Selectors[name]; !found || value != want[name] {
			return Reject(ReasonSelectors, "the selectors of the sandbox differ from those registered for the task; compare them with ebb attest explain",
				fmt.Errorf("selector %q is absent or has another value", name))
		}
	}
	return nil
}

// CheckNames returns an error when a registration has a selector that the attestor
// never sets, because no sandbox could match it. Attestors that are not Selecting
// are not checked.
func CheckNames(a Attestor, selectors map[string]string) error {
	s, knows := a.(Selecting)
	if !knows {
		return nil
	}
	can := s.SelectorNames()
	for name := range selectors {
		if !slices.Contains(can, name) { // the error omits name: it could be a secret in the wrong field
			return fmt.Errorf("one of the selectors is unknown to this attestor; register one or more of %s", strings.Join(can, ", "))
		}
	}
	return nil
}
