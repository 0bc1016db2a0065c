package console

import (
	"slices"
	"time"
	_ "time/tzdata" // the container image has no zones of its own

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// frame is what surrounds a page: never agent text.
type frame struct {
	Title string // of the document and its heading, by us
	Nav   string // path of the entry that is current
}

// view is what a template is given.
type view struct {
	frame
	Base    string // path of the public URL
	Theme   string
	Zone    *time.Location
	Now     time.Time
	Who     *visit // nil = nobody
	Entries []entry
	Banner  banner // break-glass that is open, or that nobody has reviewed
	Page    any
	s       *Console
}

// Nonce makes a form at path, below the base, sendable once.
func (v view) Nonce(path string) string { return v.s.nonce(v.Who, v.Base+path) }

// Local are lines whose paths are those of this console, where it has such a page.
func (v view) Local(lines []line) []line {
	out := slices.Clone(lines)
	for i := range out {
		if p := out[i].Path; v.s.isPage(p) {
			out[i].Path = v.Base + p
		} else {
			out[i].Path = ""
		}
	}
	return out
}

// Decides reports whether requests wait for the person at all.
func (v view) Decides() bool { return v.Who.Has(broker.RoleApprover) }

// Name is what the person is called.
func (v view) Name() string { return v.Who.session.Name }

// entry is one of the navigation.
type entry struct {
	Path, Label string
	roles       []broker.Role
}

// everyone is who comes in at all.
var everyone = []broker.Role{broker.RoleViewer, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

var entries = []entry{
	{"/queue", "Queue", everyone},
	{"/tasks", "Tasks", taskReaders},
	{"/credentials", "Credentials", credentialReaders},
	{"/audit", "Record", readers},
	{"/policy", "Policy", policyReaders},
	{"/insights", "Insights", []broker.Role{broker.RoleAuditor, broker.RoleOperator}},
	{glassPath, "Break-glass", []broker.Role{broker.RoleAuditor, broker.RoleOperator}},
	{"/settings", "Settings", everyone},
}

func (s *Console) view(c echo.Context, v *visit, f frame, page any) view {
	out := view{frame: f, Base: s.mux.Base(), Theme: theme(c), Zone: zone(c), Now: s.cfg.Now(), Who: v, Page: page, s: s}
	if v == nil {
		return out
	}
	for _, e := range entries {
		if v.Has(e.roles...) && (e.Path != glassPath || s.b.BreakGlassConfig().On()) || e.Path == glassPath && s.b.MayBreakGlass(v.Principal) == nil {
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

// zone is the person's time zone, as far as the browser said one that exists.
func zone(c echo.Context) *time.Location {
	if l := zoneOf(cookie(c, cookieZone)); l != nil {
		return l
	}
	return time.UTC
}

// zoneOf is the time zone of an IANA name, nil when there is none.
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
