package list

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// Query reads the query string of a list strictly. An unknown field, an unknown
// value, or a field that occurs twice is an error, so that a list never shows
// more than its address asks for. Empty form fields are ignored.
type Query struct {
	values url.Values
	Kept   url.Values // the fields read so far, for links to the same list
	when   string     // the period of the days before now that was chosen, such as 7d
	err    error
}

// ReadQuery reads the query string of a request.
func ReadQuery(c echo.Context) *Query {
	a := parseQuery(c.Request().URL.RawQuery)
	a.OneOf(showAll, "all")
	a.Kept.Del(showAll)
	return a
}

func parseQuery(text string) *Query {
	values, err := url.ParseQuery(text)
	a := &Query{values: values, Kept: url.Values{}}
	if err != nil {
		a.Fail("The query string of this address is malformed. Open the page again from the menu.")
	}
	for name, v := range values {
		if len(v) == 1 && v[0] == "" {
			delete(values, name)
		}
	}
	return a
}

// Fail records a problem with the query. Done returns the first.
func (a *Query) Fail(sentence string) {
	if a.err == nil {
		a.err = broker.E(broker.Invalid, sentence, nil)
	}
}

// Cursor reads a field that names a position in the list. The position is left
// out of Kept, which identifies the list itself.
func (a *Query) Cursor(name string) string {
	v := a.Text(name)
	a.Kept.Del(name)
	return v
}

// Text reads a field of one line.
func (a *Query) Text(name string) string {
	v, sent := a.values[name]
	delete(a.values, name)
	if !sent {
		return ""
	}
	if len(v) != 1 || len(v[0]) > 512 || !utf8.ValidString(v[0]) || strings.ContainsFunc(v[0], hides) {
		a.Fail("Filter field " + name + " must occur once and be one line of at most 512 bytes without invisible characters.")
		return ""
	}
	a.Kept.Set(name, v[0])
	return v[0]
}

// OneOf reads a field that must have one of the known values.
func (a *Query) OneOf(name string, known ...string) string {
	v := a.Text(name)
	if v != "" && !slices.Contains(known, v) {
		a.Fail("Filter field " + name + " must be one of " + strings.Join(known, ", ") + ".")
		return ""
	}
	return v
}

// Done reports the first error, or that the address has a field that the page
// does not support. The error does not repeat the field's name, because it may
// be a secret pasted in the wrong place.
func (a *Query) Done() error {
	if len(a.values) > 0 {
		a.Fail("The address has a field that this page does not support. Open the list again and use its filter.")
	}
	return a.err
}

// Filter returns the fields read so far, by name.
func (a *Query) Filter() map[string]string {
	out := map[string]string{}
	for name := range a.Kept {
		out[name] = a.Kept.Get(name)
	}
	return out
}

// hides reports characters that are invisible when the field is shown again.
func hides(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }
