package console

import (
	"html/template"
	"maps"
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/insights"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/policies"
	"github.com/ebb-broker/ebb/web/console/requests"
	"github.com/ebb-broker/ebb/web/console/tasks"
)

// listRoutes returns the routes of all areas.
func (a *areas) listRoutes() []shell.Route {
	own := []shell.Route{
		{Route: web.Route{Method: http.MethodGet, Path: "/assets/:hash/:name"}, Handler: a.shell.ServeAsset},
		{Route: web.Route{Method: http.MethodGet, Path: "/worker.js"}, Handler: a.shell.Guarded(a.shell.ServeWorker)},
		{Route: web.Route{Method: http.MethodGet, Path: "/events"}, Handler: a.shell.Guarded(a.live.events)},
	}
	return slices.Concat(own, a.requests.Routes(), a.tasks.Routes(), a.credentials.Routes(), a.auditlog.Routes(), a.transcripts.Routes(),
		a.policies.Routes(), a.insights.Routes(), a.settings.Routes(), a.views.Routes(), a.entrance.routes(), a.breakglass.Routes())
}

// nav returns the navigation, in the order in which pages show it.
func (a *areas) nav() []shell.NavEntry {
	return []shell.NavEntry{
		{Path: "/queue", Label: "Queue", Roles: session.Everyone},
		{Path: "/requests", Label: "Requests", Roles: session.Everyone},
		{Path: "/tasks", Label: "Tasks", Roles: session.Everyone},
		{Path: "/credentials", Label: "Credentials", Roles: session.CredentialReaders},
		{Path: "/audit", Label: "Audit log", Roles: session.AuditReaders},
		{Path: "/policy", Label: "Policy", Roles: policies.Readers},
		{Path: "/insights", Label: "Insights", Roles: []broker.Role{broker.RoleAuditor, broker.RoleOperator}},
		a.breakglass.Nav(),
		{Path: "/settings", Label: "Settings", Roles: session.Everyone},
	}
}

// funcs returns the functions that the templates of areas call.
func (a *areas) funcs() template.FuncMap {
	out := template.FuncMap{"entryRows": a.entries.Table, "says": list.Says, "heading": list.HeadingOf, "period": list.NewPeriodForm, "again": a.proofs.Again, "challenge": a.proofs.Challenge, "challengeForDraft": a.proofs.ChallengeForDraft}
	for _, more := range []template.FuncMap{requests.Funcs(), tasks.Funcs(), policies.Funcs(), insights.Funcs()} {
		maps.Copy(out, more)
	}
	return out
}
