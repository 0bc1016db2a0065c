package console

import (
	"html/template"
	"slices"
	"time"
	_ "time/tzdata" // the container image has no time zone database

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// pages renders pages and protects every response: headers, nonces, form
// tokens, the frame and its links.
type pages struct {
	key    []byte
	clock  func() time.Time
	assets *assets
	b      *core.Broker
	keys   *passkey.Keys
	live   *live
	mux    *web.Mux
	origin string

	emergencies *emergencyPages
	visits      *visits

	templates map[string]*template.Template
}

// frame holds the title and navigation of a page. It never contains agent text.
type frame struct {
	Title string // of the document
	Nav   string // path of the current navigation entry
}

// view is the data passed to a template.
type view struct {
	frame
	Base    string // path of the public URL
	Theme   string
	Zone    *time.Location
	Now     time.Time
	Who     *visit // nil = not signed in
	Entries []entry
	Banner  banner // break-glass periods that are open or not reviewed
	Page    any
	s       *pages
}

// Nonce returns a nonce for a form at path, which is relative to Base.
func (v view) Nonce(path string) string { return v.s.nonce(v.Who, v.Base+path) }

// Local returns lines with Base added to the paths of this console's pages.
// Other paths are removed.
func (v view) Local(lines []line) []line {
	out := slices.Clone(lines)
	for i := range out {
		if p := out[i].Path; v.s.visits.isPage(p) {
			out[i].Path = v.Base + p
		} else {
			out[i].Path = ""
		}
	}
	return out
}

// Decides reports whether the person is an approver.
func (v view) Decides() bool { return v.Who.Has(broker.RoleApprover) }

// Name returns the display name of the person.
func (v view) Name() string { return v.Who.session.Name }

// entry is one entry of the navigation.
type entry struct {
	Path, Label string
	roles       []broker.Role
}

// everyone is the list of roles that may sign in.
var everyone = []broker.Role{broker.RoleViewer, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

var entries = []entry{
	{"/queue", "Queue", everyone},
	{"/tasks", "Tasks", taskReaders},
	{"/credentials", "Credentials", credentialReaders},
	{"/audit", "Audit log", readers},
	{"/policy", "Policy", policyReaders},
	{"/insights", "Insights", []broker.Role{broker.RoleAuditor, broker.RoleOperator}},
	{glassPath, "Break-glass", []broker.Role{broker.RoleAuditor, broker.RoleOperator}},
	{"/settings", "Settings", everyone},
}

func (pg *pages) view(c echo.Context, v *visit, f frame, page any) view {
	out := view{frame: f, Base: pg.mux.Base(), Theme: theme(c), Zone: zone(c), Now: pg.clock(), Who: v, Page: page, s: pg}
	if v == nil {
		return out
	}
	for _, e := range entries {
		if v.Has(e.roles...) && (e.Path != glassPath || pg.b.BreakGlassConfig().On()) || e.Path == glassPath && pg.b.MayBreakGlass(v.Principal) == nil {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

func theme(c echo.Context) string {
	switch t := cookie(c, cookieTheme); t {
	case "light", "dark":
		return t
	}
	return ""
}

// zone returns the time zone in the browser's cookie, or UTC when the cookie
// names none that exists.
func zone(c echo.Context) *time.Location {
	if l := zoneOf(cookie(c, cookieZone)); l != nil {
		return l
	}
	return time.UTC
}

// zoneOf returns the time zone with an IANA name, or nil when there is none.
func zoneOf(name string) *time.Location {
	if name == "" || name == "Local" || len(name) > 64 {
		return nil
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return l
}
