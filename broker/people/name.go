package people

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxName is the maximum length of a name, in bytes.
const maxName = 256

// CheckName returns an error for an invalid name of a person: the owner of a task, or the subject
// from an identity provider. Names are ASCII, because Unicode has letters that look alike: two
// people could have names that a reader cannot tell apart and that Same does not treat as equal.
func CheckName(name string) error {
	printable := !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if name == "" || len(name) > maxName || !printable || strings.Join(strings.Fields(name), " ") != name {
		return errors.New("must be 1 to 256 printable ASCII characters, without a blank at either end or two in a row")
	}
	return nil
}

// Same reports whether both lists contain an equal name, so that both belong to one person. Only
// this function decides that. An empty name belongs to no person.
func Same(names, others []string) bool {
	folded := make([]string, len(others))
	for i, o := range others {
		folded[i] = Folded(o)
	}
	return slices.ContainsFunc(names, func(n string) bool {
		n = Folded(n)
		return n != "" && slices.Contains(folded, n)
	})
}

// Folded returns the form in which Same compares a name: without letter case, compatibility forms
// (NFKC, UAX #15), invisible characters, and blanks that do not separate. For a name that CheckName
// accepts, that is the name in lower case, as in SQL.
func Folded(name string) string {
	name = strings.ToLower(strings.ToUpper(norm.NFKC.String(name)))
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, name)
	return strings.Join(strings.Fields(name), " ")
}
