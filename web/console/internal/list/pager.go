package list

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// Limits of one page of a list.
const (
	Rows = 50   // rows shown
	Look = 2000 // rows that one page scans at most when no index covers the filter
)

// Pager holds the links to neighbouring pages; "" means no such page. Short
// means that the search stopped after Look rows.
type Pager struct {
	Newer, Older string // the page before this one in the order of the list, and the one after it
	First        string
	Back, On     string // link texts of Newer and Older
	Short        bool
	Look         int
}

// Paging describes one page of a list: its start, its end and its direction.
type Paging struct {
	List              string // list and filter that the cursors are signed for
	At                string // address without a cursor
	Placed            bool   // the page does not start at the beginning of the list
	Back, More        bool
	First, Last, Stop string // positions; First and Last are "" on an empty page
}

// Pager returns the links of a page.
func (cs *Cursors) Pager(in Paging) Pager {
	p := Pager{Back: "Newer", On: "Older"}
	to := func(name, place string) string {
		if place == "" {
			return ""
		}
		return join(in.At, name, cs.sealCursor(in.List, place))
	}
	before, after := "", ""
	switch {
	case in.Back:
		if after = in.Last; in.More {
			before = in.Stop
		}
	default:
		if in.More {
			after = in.Stop
		}
		if in.Placed {
			before = in.First
		}
	}
	p.Newer, p.Older = to("before", before), to("after", after)
	if in.Placed {
		p.First = in.At
	}
	return p
}

// Collect returns the first values that a page shows, at most Rows, in the order
// of the list, and completes in. found was read in the direction of the page, with
// the limit look. short: the page is not full, and further values were not read.
func Collect[T any](found []T, look int, id func(T) string, in *Paging, shows func(T) bool) (page []T, short bool) {
	in.More = len(found) == look
	for _, x := range found {
		if !shows(x) {
			in.Stop = id(x)
			continue
		}
		if len(page) == Rows {
			in.More = true
			break
		}
		page, in.Stop = append(page, x), id(x)
	}
	short = in.More && len(page) < Rows
	if in.Back {
		slices.Reverse(page)
	}
	if n := len(page); n > 0 {
		in.First, in.Last = id(page[0]), id(page[n-1])
	}
	return page, short
}

// Place verifies the cursor of a page and returns its position, and whether the page ends there.
func (cs *Cursors) Place(a *Query, list, after, before string) (place string, back bool) {
	if after != "" && before != "" {
		a.Fail("Use either after or before, not both.")
	}
	cursor := after + before
	if cursor == "" {
		return "", false
	}
	place, ok := cs.openCursor(list, cursor)
	if !ok {
		a.Fail("The cursor is not valid for this list and filter. Open the list again and use its filter.")
		return "", false
	}
	return place, before != ""
}

// Address returns a path with a query. join adds one field to it.
func Address(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

func join(address, name, value string) string {
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	return address + sep + name + "=" + value // cursors need no URL escaping
}

// Cursors reads and writes cursors. A cursor is a position in a list, signed together with the list
// and its filter. A cursor of another list or filter, or a forged one, is rejected. It is not bound
// to a person, so that people can share the address of a page.
type Cursors struct{ key []byte }

// NewCursors returns cursors that are signed with a key.
func NewCursors(key []byte) *Cursors { return &Cursors{key: key} }

func (cs *Cursors) sealCursor(list, place string) string {
	return base64.RawURLEncoding.EncodeToString(append(cs.cursorMAC(list, place), place...))
}

const cursorMAC = 16 // length of the truncated MAC in bytes

func (cs *Cursors) openCursor(list, cursor string) (place string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < cursorMAC {
		return "", false
	}
	place = string(raw[cursorMAC:])
	return place, hmac.Equal(raw[:cursorMAC], cs.cursorMAC(list, place))
}

func (cs *Cursors) cursorMAC(list, place string) []byte {
	m := hmac.New(sha256.New, cs.key)
	m.Write([]byte(strings.Join([]string{"cursor", list, place}, "\x00")))
	return m.Sum(nil)[:cursorMAC]
}

// TailRows limits the rows of one response. Readers further behind reload the page.
const TailRows = 20

// TailRow is a row for the script that follows a list: texts and links, by the names of slots in
// the list's template. It contains no markup, and the script creates none.
type TailRow struct {
	Key  string            `json:"key"` // id of the row
	Text map[string]string `json:"text"`
	Href map[string]string `json:"href"`
}

// Tail holds the newest rows of a list that is sorted newest first.
type Tail struct {
	Rows []TailRow `json:"rows"`
}

// Heading is the heading of a column by which the server can sort a list.
type Heading struct {
	Label string
	Order string // the ARIA order of the column: ascending, descending, or "" when another column sorts
	Path  string // the same list, sorted by this column, or in the other order
}

// HeadingOf returns a heading of the list at an address. down and up are the values of the field
// "sort" for the two orders; "" means that the list has no such order. first reports that the list
// is in the order down without the field.
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
