package out

import (
	"fmt"
	"slices"
	"strings"
)

// Format is an output format. The zero value is not a format.
type Format string

// Formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	CSV   Format = "csv"
)

var formats = []string{string(Table), string(JSON), string(CSV)}

// String implements the flag value.
func (f *Format) String() string { return string(*f) }

// Type implements the flag value: the text in --help.
func (f *Format) Type() string { return strings.Join(formats, "|") }

// Set implements the flag value.
func (f *Format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("%q is not an output format; choose %s", s, strings.Join(formats, ", "))
	}
	*f = Format(s)
	return nil
}
