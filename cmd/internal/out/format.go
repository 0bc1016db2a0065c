package out

import (
	"errors"
	"slices"
	"strings"
)

// Format is an output format. The zero value is not a format.
type Format string

// Formats.
const (
	Table Format = "table" // at most Width cells wide: short ids, relative times
	Wide  Format = "wide"  // every column, whole
	JSON  Format = "json"
	CSV   Format = "csv"
)

var formats = []string{string(Table), string(Wide), string(JSON), string(CSV)}

// IsTable reports whether the format is a table, for people.
func (f Format) IsTable() bool { return f == Table || f == Wide }

// String implements the flag value.
func (f *Format) String() string { return string(*f) }

// Type implements the flag value: the text in --help.
func (f *Format) Type() string { return strings.Join(formats, "|") }

// Values returns the formats, for completion and suggestions.
func (f *Format) Values() []string { return formats }

// Set implements the flag value.
func (f *Format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return errors.New("choose " + strings.Join(formats, ", "))
	}
	*f = Format(s)
	return nil
}
