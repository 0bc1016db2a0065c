package attest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Registrar is an Attestor that knows which registrations would fit more than one
// sandbox, and refuses them when a task is opened.
type Registrar interface {
	Attestor
	// CheckRegistration says what is wrong with what a runner registers, nil for
	// nothing. The runner reads the error: it says what to add, and repeats none of
	// the values.
	CheckRegistration(selectors map[string]string) error
}

// Selecting is an Attestor that knows, from its configuration, every selector that
// its evidence can have.
type Selecting interface {
	Attestor
	// SelectorNames are their names, for people in this order.
	SelectorNames() []string
}

// Reattester is an Attestor that knows whether a sandbox can show fresh evidence at
// intervals, as long as its task goes on.
type Reattester interface {
	Attestor
	// CheckReattest says why it cannot, nil when it can.
	CheckReattest() error
}

// CheckNames refuses a registration of a selector that an attestor never gives: no
// sandbox would ever fit it.
func CheckNames(a Attestor, selectors map[string]string) error {
	s, knows := a.(Selecting)
	if !knows {
		return nil
	}
	can := s.SelectorNames()
	for _, name := range slices.Sorted(maps.Keys(selectors)) {
		if !slices.Contains(can, name) {
			return fmt.Errorf("this attestor never gives the selector %+q; it gives %s", name, strings.Join(can, ", "))
		}
	}
	return nil
}
