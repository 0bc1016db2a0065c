package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Then adds steps that the caller can take next to e, and returns e. A step is one line in the
// words of the command line; it may be shown to every caller, as Public may.
func (e *Error) Then(steps ...string) *Error {
	e.Next = append(e.Next, steps...)
	return e
}

// maxQuoted is the longest name that Quoted repeats. Ids are shorter.
const maxQuoted = 64

// Quoted returns a name that the caller sent, in quotes and in ASCII, for Public. It cuts a name
// that is too long. It replaces a secret of ebb, at any place in the name, by the secret's prefix:
// people paste secrets into the wrong place, and Public is logged.
func Quoted(name string) string {
	if before, rest, is := strings.Cut(name, "ebb_"); is {
		kind, _, _ := strings.Cut(rest, "_")
		name = before + "ebb_" + kind[:min(len(kind), 8)] + "_..."
	}
	if len(name) > maxQuoted {
		name = name[:maxQuoted/4] + "..."
	}
	return strconv.QuoteToASCII(name)
}

// Named returns a list of configured names for Public, sorted, "none" if there are none.
func Named(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	names = slices.Sorted(slices.Values(names))
	if n := len(names) - most; n > 0 {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// NoSuch returns the error for a thing that does not exist or that the caller may not see. It is
// the same for both, because the difference would reveal that the thing exists.
func NoSuch(thing, name, prefix, list string) *Error {
	e := E(NotFound, "There is no "+thing+" "+Quoted(name)+" that you may see.", nil)
	if prefix != "" && !ValidID(prefix, name) {
		e.Public = "There is no " + thing + " " + Quoted(name) + ": an id is " + prefix + " and 32 of 0-9 a-f."
	}
	return e.Then("list the ids: " + list)
}

// Bounded returns the text of a set of scopes for Public, at most 400 bytes of it.
func Bounded(set fmt.Stringer) string {
	const most = 400
	text := set.String()
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}
