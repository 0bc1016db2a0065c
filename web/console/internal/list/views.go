package list

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// viewFields are the lists with saved views, by the path of the page, and the
// fields of their filters.
var viewFields = map[string][]string{
	"/queue":       {"q", "risk", "provider", "task", "view"},
	"/requests":    {"state", "by", "risk", "rule", "owner", "task", "when", "from", "to"},
	"/tasks":       {"state", "owner", "kind"},
	"/credentials": {"state", "provider", "owner", "task", "sandbox", "resource", "scope", "when", "from", "to", "sort"},
	"/audit":       {"kind", "actor", "task", "lease", "request", "when", "from", "to", "sort"},
}

// showAll is the field of an address that shows a list without the visitor's default view.
const showAll = "show"

// Views are the filters that people save on lists. One of a person's views can
// be the default of its list: the address without a query string leads to it.
type Views struct {
	shell *shell.Shell
	store people.ReachStore
}

// NewViews returns the saved views in a store.
func NewViews(sh *shell.Shell, store people.ReachStore) *Views { return &Views{sh, store} }

// Routes are the routes of saved views.
func (vs *Views) Routes() []shell.Route {
	return []shell.Route{vs.shell.Form("/views", false, vs.change)}
}

// Page returns the route of a list with saved views.
func (vs *Views) Page(path string, h func(echo.Context, *session.Visit) error) shell.Route {
	return vs.shell.Page(path, func(c echo.Context, v *session.Visit) error {
		if c.Request().URL.RawQuery == "" {
			if mine := vs.of(c, v)[path]; mine.Default != "" {
				return vs.shell.Redirect(c, addressOf(path, mine.Fields[mine.Default]))
			}
		}
		return h(c, v)
	})
}

// of returns the views of the visitor, or none if the database does not answer:
// people must still be able to deny and revoke from lists.
func (vs *Views) of(c echo.Context, v *session.Visit) people.Views {
	r, err := vs.store.Reach(c.Request().Context(), v.ID)
	if err != nil {
		return nil
	}
	return r.Preferences.Views
}

func addressOf(path string, fields map[string]string) string {
	q := url.Values{}
	for name, value := range fields {
		q.Set(name, value)
	}
	return Address(path, q.Encode())
}

// ViewBar is the data of the template "views", which opens, saves and deletes the views of a list.
type ViewBar struct {
	List    string
	Filter  string // the filter that can be saved; "" = none
	Views   []viewLink
	Full    bool   // the visitor has people.MaxViews views
	Open    string // the view with this filter; "" = none
	Default string // the view that opens with the page; "" = none
}

type viewLink struct{ Name, Address string }

// Bar returns the saved views of a list, whose filter is a.
func (vs *Views) Bar(c echo.Context, v *session.Visit, path string, a *Query) ViewBar {
	all := vs.of(c, v)
	out := ViewBar{List: path, Filter: a.saved().Encode(), Full: all.Len() >= people.MaxViews, Default: all[path].Default}
	for _, name := range slices.Sorted(maps.Keys(all[path].Fields)) {
		l := viewLink{name, addressOf(path, all[path].Fields[name])}
		if l.Address == Address(path, out.Filter) {
			out.Open = name
		}
		out.Views = append(out.Views, l)
	}
	return out
}

// Address returns the address of the list with the filter of a. If the visitor
// has a default view, the address without a filter says so.
func (b ViewBar) Address(a *Query) string {
	if len(a.Kept) == 0 && b.Default != "" {
		return Address(b.List, showAll+"=all")
	}
	return Address(b.List, a.Kept.Encode())
}

// saved returns the fields of the query as a view stores them: a period
// relative to now, such as 7d, stays relative.
func (a *Query) saved() url.Values {
	out := maps.Clone(a.Kept)
	if a.when != "" {
		out.Del("from")
		out.Del("to")
		out.Set("when", a.when)
	}
	return out
}

// change saves or deletes a view of the visitor, or sets their default view.
func (vs *Views) change(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	path := form.Get("list")
	known, is := viewFields[path]
	if !is {
		return broker.E(broker.Invalid, "No list of this name has saved views.", nil)
	}
	if !vs.shell.Offers(v, path) {
		return broker.E(broker.Forbidden, "Your roles do not let you see this list.", nil)
	}
	a := parseQuery(form.Get("filter"))
	for _, name := range known {
		a.Text(name)
	}
	if err := a.Done(); err != nil {
		return err
	}
	err := v.ChangePreferences(c.Request().Context(), vs.store, func(p *people.Preferences) error {
		if p.Views == nil {
			p.Views = people.Views{}
		}
		name, mine := form.Get("delete")+form.Get("default"), p.Views[path]
		_, has := mine.Fields[name]
		switch {
		case form.Has("save"):
			return vs.save(v, p, path, strings.TrimSpace(form.Get("name")), a.Filter())
		case !has && name != "":
			return broker.E(broker.NotFound, "You have no saved view of this name. Reload the page to see your views.", nil)
		case form.Has("default"):
			mine.Default = name
		case has:
			if delete(mine.Fields, name); mine.Default == name {
				mine.Default = ""
			}
		default:
			return broker.E(broker.Invalid, "The form names nothing to change. Reload the page and send the form again.", nil)
		}
		p.Views[path] = mine
		return nil
	})
	if err != nil {
		return err
	}
	if len(a.Kept) == 0 {
		a.Kept.Set(showAll, "all")
	}
	return vs.shell.Redirect(c, Address(path, a.Kept.Encode()))
}

// save adds a view. If the person then has too many, save removes the views of
// lists that the person can no longer open.
func (vs *Views) save(v *session.Visit, p *people.Preferences, path, name string, fields map[string]string) error {
	mine := p.Views[path]
	if mine.Fields == nil {
		mine.Fields = map[string]map[string]string{}
	}
	mine.Fields[name], p.Views[path] = fields, mine
	if p.Views.Check() != nil {
		maps.DeleteFunc(p.Views, func(list string, _ people.ListViews) bool { return !vs.shell.Offers(v, list) })
	}
	if err := p.Views.Check(); err != nil {
		return broker.E(broker.Invalid, "The view was not saved: "+err.Error()+".", err)
	}
	return nil
}
