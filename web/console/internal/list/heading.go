package list

import (
	"net/url"
	"strings"
)

// Heading is the heading of a column by which the server can sort a list.
type Heading struct {
	Label string
	Order string // the ARIA order of the column: ascending, descending, or "" when another column sorts
	Path  string // the same list, sorted by this column, or in the other order
}

// HeadingOf returns a heading of the list at an address. down and up are the
// values of the field "sort" for the two orders; "" means that the list has no
// such order. first reports that the list is in the order down without the
// field.
func HeadingOf(address, label, down, up string, first bool) Heading {
	path, rest, _ := strings.Cut(address, "?")
	query, _ := url.ParseQuery(rest) // made by Address, so there is no error
	h := Heading{Label: label}
	now := query.Get("sort")
	switch {
	case now == down && down != "" || now == "" && first:
		h.Order, now = "descending", up
	case now == up:
		h.Order, now = "ascending", down
	case down != "":
		now = down
	default:
		now = up
	}
	query.Del("sort")
	if now != "" {
		query.Set("sort", now)
	}
	h.Path = Address(path, query.Encode())
	return h
}
