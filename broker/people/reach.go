package people

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Preference is when a person wants to be notified.
type Preference string

// The preferences.
const (
	AtOnce   Preference = "now"
	InDigest Preference = "digest"
	Never    Preference = "off"
)

// Preferences are a person's notification preferences, by risk, their quiet hours, their saved
// views and their absence.
type Preferences struct {
	High   Preference `json:"high"`
	Medium Preference `json:"medium"`
	Low    Preference `json:"low"`
	// Quiet hours of each day in Zone, in minutes from midnight: from QuietFrom up to
	// QuietTo, which may be on the next day. The same twice: none.
	QuietFrom int    `json:"quiet_from"`
	QuietTo   int    `json:"quiet_to"`
	Zone      string `json:"zone"` // of the IANA database; "" = UTC
	// HighBreaks allows notices of high risk in quiet hours.
	HighBreaks bool `json:"high_breaks"`
	// NoShortcuts turns off the one-key shortcuts of the console.
	NoShortcuts bool `json:"no_shortcuts,omitempty"`
	// Views are the filters that the person has saved on the lists of the console.
	Views Views   `json:"views,omitempty"`
	Away  Absence `json:"away,omitzero"`
}

// DefaultPreferences returns the initial preferences.
func DefaultPreferences() Preferences {
	return Preferences{High: AtOnce, Medium: InDigest, Low: InDigest}
}

// Check returns an error for invalid preferences.
func (w Preferences) Check() error {
	for _, x := range []Preference{w.High, w.Medium, w.Low} {
		if x != AtOnce && x != InDigest && x != Never {
			return fmt.Errorf("%q is not a preference: use now, digest or off", x)
		}
	}
	if w.QuietFrom < 0 || w.QuietFrom >= 24*60 || w.QuietTo < 0 || w.QuietTo >= 24*60 {
		return errors.New("quiet hours must begin and end between 00:00 and 23:59")
	}
	if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
		return fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin or UTC", w.Zone)
	}
	return errors.Join(w.Views.Check(), w.Away.Check())
}

// Of returns the preference for a risk; an unknown risk counts as high.
func (w Preferences) Of(risk string) Preference {
	switch risk {
	case "low":
		return w.Low
	case "medium":
		return w.Medium
	}
	return w.High
}

// QuietUntil returns the end of the quiet hours that contain at, or at itself outside of quiet
// hours. Quiet hours are in local time: on a day with a clock change they are shorter or longer by
// the change.
func (w Preferences) QuietUntil(at time.Time) time.Time {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil || w.QuietFrom == w.QuietTo {
		return at
	}
	t := at.In(zone)
	day := func(days, minutes int) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day()+days, 0, minutes, 0, 0, zone)
	}
	length := 0
	if w.QuietTo < w.QuietFrom {
		length = 1 // over midnight
	}
	for begin := -length; begin <= 0; begin++ {
		from, to := day(begin, w.QuietFrom), day(begin+length, w.QuietTo)
		if !t.Before(from) && t.Before(to) {
			return to
		}
	}
	return at
}

// Reach holds the address and the notification preferences of a person.
type Reach struct {
	Person      string // id of the principal
	Mail        string // address that the identity provider has verified; "" = none
	Roles       []string
	Groups      []string
	Also        []string  // other names of the person
	SeenAt      time.Time // last sign-in; Roles and Groups are from then
	Browsers    int       // number of browsers with a subscription to web push
	Preferences Preferences
}

// Is reports whether name is one of this person's names.
func (r Reach) Is(name string) bool {
	return Same(append([]string{r.Person}, r.Also...), []string{name})
}

// MaxReach is the maximum number of people to notify.
const MaxReach = 2000

// ReachStore stores addresses and preferences; replicas share it.
type ReachStore interface {
	// Know stores the address of a person who signs in. It keeps existing preferences and
	// otherwise sets the defaults.
	Know(ctx context.Context, r Reach) error
	// ChangePreferences applies change to a person's preferences, atomically; ErrNone for an unknown
	// person. An error of change is returned, and changes nothing. change may be called again.
	ChangePreferences(ctx context.Context, person string, change func(*Preferences) error) error
	// Reach returns the address and preferences of a person, or ErrNone.
	Reach(ctx context.Context, person string) (Reach, error)
	// Reachable returns up to MaxReach people with a sign-in since the given time, the most recent
	// first.
	Reachable(ctx context.Context, since time.Time) ([]Reach, error)
}

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
