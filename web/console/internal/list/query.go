package list

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/nearest"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Query reads the query string of a list strictly. An unknown field, an unknown
// value, or a field that occurs twice is a problem, so that a list never shows
// more than its address asks for. Empty form fields are ignored.
type Query struct {
	values   url.Values
	Kept     url.Values        // the valid fields read so far, for links to the same list
	Problems map[string]string // by field; "" is the address itself
	typed    map[string]string // the values with a problem, with invisible characters escaped
	when     string            // the chosen period if it is relative to now, such as 7d
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
	a := &Query{values: values, Kept: url.Values{}, Problems: map[string]string{}, typed: map[string]string{}}
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

// Fail records a problem with the address.
func (a *Query) Fail(sentence string) { a.Wrong("", sentence) }

// Wrong records a problem with a field. The first of each field counts.
func (a *Query) Wrong(field, sentence string) {
	if a.Problems[field] == "" {
		a.Problems[field] = sentence
	}
	if v := a.Kept.Get(field); v != "" {
		a.typed[field] = v
		a.Kept.Del(field)
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
		a.typed[name] = shell.OneLine(v[0])
		a.Wrong(name, "Write one line of at most 512 bytes without invisible characters, and use each field of the address only once.")
		return ""
	}
	a.Kept.Set(name, v[0])
	return v[0]
}

// OneOf reads a field that must have one of the known values.
func (a *Query) OneOf(name string, known ...string) string {
	v := a.Text(name)
	if v == "" || slices.Contains(known, v) {
		return v
	}
	says := "“" + shell.OneLine(v) + "” is not a value of this field."
	if near := nearest.Of(v, known); near != "" {
		says += " Did you mean “" + near + "”?"
	}
	a.Wrong(name, says)
	return ""
}

// Unread reports a field of the address that the page does not have, and whether
// there is any problem. It does not repeat the field's name, because it may be a
// secret pasted in the wrong place.
func (a *Query) Unread() bool {
	if len(a.values) > 0 {
		a.Fail("The address has a field that this page does not support. Open the list again and use its filter.")
	}
	return len(a.Problems) > 0
}

// Done returns the first problem, for answers that cannot show it in a form.
func (a *Query) Done() error {
	if !a.Unread() {
		return nil
	}
	field := slices.Sorted(maps.Keys(a.Problems))[0]
	if field == "" {
		return broker.E(broker.Invalid, a.Problems[field], nil)
	}
	return broker.E(broker.Invalid, "Filter field "+field+": "+a.Problems[field], nil)
}

// Filter returns the fields read so far, by name.
func (a *Query) Filter() map[string]string {
	out := map[string]string{}
	for name := range a.Kept {
		out[name] = a.Kept.Get(name)
	}
	return out
}

// Field is the data of the template "field". A field with options is a menu; Any
// is the label of its empty option, if it has one.
type Field struct {
	Name, Label, Value, Problem string
	Max                         int
	Any                         string
	Options                     []shell.Option
}

// Field returns a field of one line.
func (a *Query) Field(name, label string, most int) Field {
	return Field{Name: name, Label: label, Value: cmp.Or(a.Kept.Get(name), a.typed[name]), Problem: a.Problems[name], Max: most}
}

// Menu returns a field with options.
func (a *Query) Menu(name, label, any string, options []shell.Option) Field {
	out := a.Field(name, label, 0)
	out.Any, out.Options = any, options
	return out
}

// Refusal returns why the list is not shown, or "".
func (a *Query) Refusal() string {
	if len(a.Problems) == 0 {
		return ""
	}
	return cmp.Or(a.Problems[""], "The list is not shown, because a field of the filter is wrong.")
}

// hides reports characters that are invisible when the field is shown again.
func hides(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }
