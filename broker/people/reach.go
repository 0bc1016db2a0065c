package people

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Wish is when a person wants to be told of something.
type Wish string

// Wishes.
const (
	AtOnce   Wish = "now"
	InDigest Wish = "digest"
	Never    Wish = "off"
)

// Wishes are what a person wants to be told, by risk, and when not.
type Wishes struct {
	High   Wish `json:"high"`
	Medium Wish `json:"medium"`
	Low    Wish `json:"low"`
	// Quiet hours of each day in Zone, in minutes from midnight: from QuietFrom up to
	// QuietTo, which may be on the next day. The same twice: none.
	QuietFrom int    `json:"quiet_from"`
	QuietTo   int    `json:"quiet_to"`
	Zone      string `json:"zone"` // of the IANA database; "" = UTC
	// HighBreaks lets what is of high risk through in quiet hours.
	HighBreaks bool `json:"high_breaks"`
}

// DefaultWishes are those of somebody who has said nothing.
func DefaultWishes() Wishes { return Wishes{High: AtOnce, Medium: InDigest, Low: InDigest} }

// Check says whether w is whole.
func (w Wishes) Check() error {
	for _, x := range []Wish{w.High, w.Medium, w.Low} {
		if x != AtOnce && x != InDigest && x != Never {
			return errors.New("a wish is now, digest or off")
		}
	}
	if w.QuietFrom < 0 || w.QuietFrom >= 24*60 || w.QuietTo < 0 || w.QuietTo >= 24*60 {
		return errors.New("quiet hours begin and end between 00:00 and 23:59")
	}
	if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
		return errors.New("there is no such time zone")
	}
	return nil
}

// Of is what w says of a risk; one that it does not know is the worst.
func (w Wishes) Of(risk string) Wish {
	switch risk {
	case "low":
		return w.Low
	case "medium":
		return w.Medium
	}
	return w.High
}

// QuietUntil is when the quiet hours end in which at is; at itself when it is in none. They
// are of the clock on the wall: on a day on which that is moved they are as much shorter or
// longer.
func (w Wishes) QuietUntil(at time.Time) time.Time {
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

// Reach is where a person can be told something, as far as ebb knows.
type Reach struct {
	Person string // id of the principal
	Mail   string // address that the identity provider has verified; "" = none
	Roles  []string
	Groups []string
	Also   []string  // other names of the person
	SeenAt time.Time // they last signed in; Roles and Groups were so then
	Wishes Wishes
}

// Is reports whether name is this person's, under whichever name.
func (r Reach) Is(name string) bool {
	return name != "" && (strings.EqualFold(r.Person, name) || slices.ContainsFunc(r.Also, func(s string) bool { return strings.EqualFold(s, name) }))
}

// MaxReach is how many people are told at most.
const MaxReach = 2000

// ReachStore keeps where people can be told something; replicas share it.
type ReachStore interface {
	// Know notes what was learnt of a person who signs in. Wishes of one who is known
	// stay; the others' are the default ones.
	Know(ctx context.Context, r Reach) error
	// Wish replaces a person's wishes: ErrNone when nobody knows the person.
	Wish(ctx context.Context, person string, w Wishes) error
	// Reach returns what is known of one person: ErrNone.
	Reach(ctx context.Context, person string) (Reach, error)
	// Reachable returns everybody with a mail address who has signed in since then, the
	// last seen first, at most MaxReach.
	Reachable(ctx context.Context, since time.Time) ([]Reach, error)
}
