package console

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// asked reads the query string of a list strictly: a name that nobody knows, a value
// that is none of those there are, and anything twice is an error, so that a list never
// shows more than its address says. Fields of a form that were left empty are nothing.
type asked struct {
	values url.Values
	kept   url.Values // what was asked for, as it is written into other addresses
	err    error
}

func readAsked(c echo.Context) *asked {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	a := &asked{values: values, kept: url.Values{}}
	if err != nil {
		a.fail("The address of this page is damaged.")
	}
	for name, v := range values {
		if len(v) == 1 && v[0] == "" {
			delete(values, name)
		}
	}
	return a
}

func (a *asked) fail(sentence string) {
	if a.err == nil {
		a.err = broker.E(broker.Invalid, sentence, nil)
	}
}

// cursor reads a field that says where in the list a page is, and not which list.
func (a *asked) cursor(name string) string {
	v := a.text(name)
	a.kept.Del(name)
	return v
}

func (a *asked) text(name string) string {
	v, sent := a.values[name]
	delete(a.values, name)
	if !sent {
		return ""
	}
	if len(v) != 1 || len(v[0]) > 512 || !utf8.ValidString(v[0]) || strings.ContainsFunc(v[0], hides) {
		a.fail("The field " + name + " of the filter must come once and be text of one line, of 512 bytes at most, without hidden characters.")
		return ""
	}
	a.kept.Set(name, v[0])
	return v[0]
}

func (a *asked) oneOf(name string, known ...string) string {
	v := a.text(name)
	if v != "" && !slices.Contains(known, v) {
		a.fail("The field " + name + " of the filter must be one of " + strings.Join(known, ", ") + ".")
		return ""
	}
	return v
}

// moment reads a time in UTC, as browsers send it and as addresses have it.
func (a *asked) moment(name string) time.Time {
	v := a.text(name)
	if v == "" {
		return time.Time{}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(form, v); err == nil && t.Year() >= 1970 && t.Year() < 10000 {
			return t.UTC()
		}
	}
	a.fail("The field " + name + " of the filter must be a time in UTC, such as 2026-01-31T14:05.")
	return time.Time{}
}

// done reports the first error, or a field that no list of this kind has. Its name is
// not repeated: it may be a secret in the wrong place.
func (a *asked) done() error {
	if len(a.values) > 0 {
		a.fail("The address has a field that this page does not know. Start again from the filter.")
	}
	return a.err
}

// filter is what was asked for, by name.
func (a *asked) filter() map[string]string {
	out := map[string]string{}
	for name := range a.kept {
		out[name] = a.kept.Get(name)
	}
	return out
}

// hides reports characters that nobody sees in a field that is drawn again.
func hides(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }
