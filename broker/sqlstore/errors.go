package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker"
)

// errClosed is returned for every unit after Close: its outcome was not decided.
var errClosed = errors.New("the database is closed")

// ErrUnknown is wrapped when a commit was sent and its outcome is not known. Repeating
// the unit is safe: rows that exist already give broker.ErrExists.
var ErrUnknown = errors.New("it is not known whether the unit was committed")

var sentinels = []error{
	broker.ErrNotFound, broker.ErrDone, broker.ErrStale, broker.ErrClaimed, broker.ErrTaskClosed,
	broker.ErrTaskPaused, broker.ErrCap, broker.ErrOwnerCap, broker.ErrLost, broker.ErrExists, broker.ErrOutranked, broker.ErrPendingRevocation,
}

// refusal reports whether err is a decision of the database's content (a lost race, a
// missing row) and not a failure of the database.
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

// storable rejects texts that PostgreSQL cannot store, before they fail a whole batch.
// The rule is the same for both engines.
func storable(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("a text is not UTF-8 or holds a NUL byte")
		}
	}
	return nil
}
