package console

import "strings"

// pager leads to the pages beside one; "" = there is none. Short: the search stopped
// after Look rows.
type pager struct {
	Newer, Older string // the page before this one in the order of the list, and the one after it
	First        string
	Back, On     string // what those two are called
	Short        bool
	Look         int
}

// paging is what a page of a list is known to be: where it began and ended.
type paging struct {
	list              string // and its filter: what a cursor is signed for
	at                string // address without a place
	placed            bool   // it does not begin at the start
	back, more        bool
	first, last, stop string // places; of an empty page the first two are ""
}

func (s *Console) pagerOf(in paging) pager {
	p := pager{Back: "Newer", On: "Older"}
	to := func(name, place string) string {
		if place == "" {
			return ""
		}
		return join(in.at, name, s.sealCursor(in.list, place))
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

// place reads where a page of a list begins, and whether it ends there.
func (s *Console) place(a *asked, list, after, before string) (place string, back bool) {
	if after != "" && before != "" {
		a.fail("A page is after a place or before it, not both.")
	}
	cursor := after + before
	if cursor == "" {
		return "", false
	}
	place, ok := s.openCursor(list, cursor)
	if !ok {
		a.fail("This is no page of this list: its address was changed. Start again from the filter.")
		return "", false
	}
	return place, before != ""
}

// address is a path with a query, and join adds one more field to it.
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
	return address + sep + name + "=" + value // a cursor has no character that an address must escape
}
