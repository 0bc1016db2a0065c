package people

import (
	"errors"
	"time"
)

// Absence is a time in which the notifications of a person's requests go to a delegate. The
// delegate gets no right by it.
type Absence struct {
	Until    time.Time `json:"until"`    // the end, exclusive
	Delegate string    `json:"delegate"` // id of a person
}

const (
	// MaxAbsence is the maximum number of days from today to the last day of an absence.
	MaxAbsence = 90
	// KnownFor is the time after the last sign-in for which ebb counts on a person. Identity providers
	// do not report that a person has left.
	KnownFor = 30 * 24 * time.Hour
)

// Check returns an error for an absence that lacks its end or its delegate.
func (a Absence) Check() error {
	if a.Until.IsZero() != (a.Delegate == "") {
		return errors.New("an absence must have an end and a delegate")
	}
	return nil
}

// At reports whether the person is absent at a time.
func (a Absence) At(t time.Time) bool { return t.Before(a.Until) }
