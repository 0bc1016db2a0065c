package console

import "strings"

// pager holds the links to neighbouring pages; "" means no such page. Short
// means that the search stopped after Look rows.
type pager struct {
	Newer, Older string // the page before this one in the order of the list, and the one after it
	First        string
	Back, On     string // link texts of Newer and Older
	Short        bool
	Look         int
}

// paging describes one page of a list: its start, its end and its direction.
type paging struct {
	list              string // list and filter that the cursors are signed for
	at                string // address without a cursor
	placed            bool   // the page does not start at the beginning of the list
	back, more        bool
	first, last, stop string // positions; first and last are "" on an empty page
}

func (pg *pages) pagerOf(in paging) pager {
	p := pager{Back: "Newer", On: "Older"}
	to := func(name, place string) string {
		if place == "" {
			return ""
		}
		return join(in.at, name, pg.sealCursor(in.list, place))
	}
	before, after := "", ""
	switch {
	case in.back:
		if after = in.last; in.more {
			before = in.stop
		}
	default:
		if in.more {
			after = in.stop
		}
		if in.placed {
			before = in.first
		}
	}
	p.Newer, p.Older = to("before", before), to("after", after)
	if in.placed {
		p.First = in.at
	}
	return p
}

// place verifies the cursor of a page and returns its position, and whether the
// page ends there.
func (pg *pages) place(a *asked, list, after, before string) (place string, back bool) {
	if after != "" && before != "" {
		a.fail("Use either after or before, not both.")
	}
	cursor := after + before
	if cursor == "" {
		return "", false
	}
	place, ok := pg.openCursor(list, cursor)
	if !ok {
		a.fail("The cursor is not valid for this list and filter. Open the list again and use its filter.")
		return "", false
	}
	return place, before != ""
}

// address returns a path with a query. join adds one field to it.
func address(path, query string) string {
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
