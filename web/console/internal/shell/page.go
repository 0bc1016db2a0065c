package shell

import (
	"slices"
	"time"
	_ "time/tzdata" // the container image has no time zone database

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// Frame holds the title and navigation of a page. It never contains agent text.
type Frame struct {
	Title string // of the document
	Nav   string // path of the current navigation entry
}

// View is the data passed to a template.
type View struct {
	Frame
	Base    string // path of the public URL
	Theme   string
	Zone    *time.Location
	Now     time.Time
	Who     *session.Visit // nil = not signed in
	Entries []NavEntry
	Banner  Banner // nil = not signed in
	Page    any
	s       *Shell
}

// Nonce returns a nonce for a form at path, which is relative to Base.
func (v View) Nonce(path string) string { return v.s.Nonce(v.Who, v.Base+path) }

// Local returns lines with Base added to the paths of this console's pages.
// Other paths are removed.
func (v View) Local(lines []Line) []Line {
	out := slices.Clone(lines)
	for i := range out {
		if p := out[i].Path; v.s.IsPage(p) {
			out[i].Path = v.Base + p
		} else {
			out[i].Path = ""
		}
	}
	return out
}

// Decides reports whether the person is an approver.
func (v View) Decides() bool { return v.Who.Has(broker.RoleApprover) }

// Name returns the display name of the person.
func (v View) Name() string { return v.Who.Session.Name }

// NavEntry is one entry of the navigation. Visitors with one of the roles see
// it. For, if it is set, decides instead of the roles.
type NavEntry struct {
	Path, Label string
	Roles       []broker.Role
	For         func(*session.Visit) bool
}

func (n NavEntry) shownTo(v *session.Visit) bool {
	if n.For != nil {
		return n.For(v)
	}
	return v.Has(n.Roles...)
}

// offered returns the index of the visitor's navigation entry for a path, or -1.
func (s *Shell) offered(v *session.Visit, path string) int {
	return slices.IndexFunc(s.nav, func(e NavEntry) bool { return e.Path == path && e.shownTo(v) })
}

// Offers reports whether the visitor's navigation has an entry for a path.
func (s *Shell) Offers(v *session.Visit, path string) bool { return s.offered(v, path) >= 0 }

// Banner is the notice at the top of every page. The template of the frame knows its fields.
type Banner interface {
	Says() bool // it is shown
}

// View returns the data of a template. v is nil for a person who is not signed in.
func (s *Shell) View(c echo.Context, v *session.Visit, f Frame, page any) View {
	out := View{Frame: f, Base: s.Base(), Theme: theme(c), Zone: Zone(c), Now: s.clock(), Who: v, Page: page, s: s}
	if v == nil {
		return out
	}
	for _, e := range s.nav {
		if e.shownTo(v) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

func theme(c echo.Context) string {
	switch t := session.Cookie(c, session.CookieTheme); t {
	case "light", "dark":
		return t
	}
	return ""
}

// Zone returns the time zone in the browser's cookie, or UTC when the cookie
// names none that exists.
func Zone(c echo.Context) *time.Location {
	if l := ZoneOf(session.Cookie(c, session.CookieZone)); l != nil {
		return l
	}
	return time.UTC
}

// ZoneOf returns the time zone with an IANA name, or nil when there is none.
func ZoneOf(name string) *time.Location {
	if name == "" || name == "Local" || len(name) > 64 {
		return nil
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return l
}
