package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ebb/broker"
)

// errClosed is "could not judge": the process is going down.
var errClosed = errors.New("the journal is closed")

// ErrUnknown is wrapped when a commit was sent and its outcome is not known.
// Repeating the same unit is safe: what exists already is broker.ErrExists.
var ErrUnknown = errors.New("it is not known whether the unit was committed")

var sentinels = []error{
	broker.ErrNotFound, broker.ErrDone, broker.ErrStale, broker.ErrClaimed, broker.ErrTaskClosed,
	broker.ErrTaskPaused, broker.ErrCap, broker.ErrOwnerCap, broker.ErrLost, broker.ErrExists, broker.ErrOutranked, broker.ErrOwed,
}

// refusal reports whether err is an answer (somebody lost, something is not
// there) rather than a failure to find one.
func refusal(err error) bool {
	var be *broker.Error
	if errors.As(err, &be) {
		return true
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// storable refuses what PostgreSQL could not keep, before a whole batch has to
// find out. Both engines take the same texts.
func storable(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("a text is not UTF-8 or holds a NUL byte")
		}
	}
	return nil
}
