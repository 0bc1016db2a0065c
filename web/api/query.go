package api

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// query reads a query string strictly. An unknown parameter, a repeated
// parameter, or one without a value is an error, which done reports.
type query struct {
	values url.Values
	err    error
}

func readQuery(c echo.Context) *query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return &query{err: malformed("The query string is malformed.")}
	}
	return &query{values: values}
}

func (q *query) fail(name, what string) {
	if q.err == nil {
		q.err = malformed("The query parameter " + name + " " + what + ".")
	}
}

func (q *query) text(name string) string {
	v, sent := q.values[name]
	delete(q.values, name)
	switch {
	case !sent:
		return ""
	case len(v) != 1:
		q.fail(name, "is repeated")
	case v[0] == "" || len(v[0]) > 512 || !visible(v[0]):
		q.fail(name, "must be 1 to 512 printable ASCII characters")
	default:
		return v[0]
	}
	return ""
}

func (q *query) oneOf(name string, allowed ...string) string {
	v := q.text(name)
	if v != "" && !slices.Contains(allowed, v) {
		q.fail(name, "is not one of the accepted values")
		return ""
	}
	return v
}

func (q *query) flag(name string) bool { return q.oneOf(name, "true", "false") == "true" }

func (q *query) number(name string, otherwise, low, high int) int {
	v := q.text(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		q.fail(name, "must be a number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		return otherwise
	}
	return n
}

func (q *query) time(name string) time.Time {
	v := q.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		q.fail(name, "must be an RFC 3339 time")
	}
	return t
}

const defaultPage = 50

func (q *query) page() broker.Page {
	return broker.Page{
		After: q.text("after"),
		Limit: q.number("limit", defaultPage, 1, 1000),
		Desc:  q.oneOf("order", "asc", "desc") == "desc",
	}
}

// done reports the first error, or that there is an unknown parameter. The
// error does not repeat the parameter's name, because it may be a token pasted
// in the wrong place.
func (q *query) done() error {
	if q.err == nil && len(q.values) > 0 {
		q.err = malformed("The query string has an unknown parameter.")
	}
	return q.err
}
