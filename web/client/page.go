package client

import (
	"net/url"
	"strconv"
	"time"
)

// Page selects a page of a listing.
type Page struct {
	After string // wire.List.Next of the page before; "" = the first page
	Limit int    // items of the page, 1 to 1000; 0 = 50
	Desc  bool   // newest first
}

func pageQuery(p Page) url.Values {
	q := url.Values{}
	set(q, "after", p.After)
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Desc {
		q.Set("order", "desc")
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}
