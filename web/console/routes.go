package console

import (
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/web"
)

// routes returns all routes of the console.
func (s *Console) routes() []route {
	routes := []route{
		{web.Route{Method: http.MethodGet, Path: "/assets/:hash/:name"}, s.assets.serve},
		{web.Route{Method: http.MethodGet, Path: "/"}, s.guarded(s.home)},
		{web.Route{Method: http.MethodGet, Path: "/signin"}, s.guarded(s.signIn)},
		{web.Route{Method: http.MethodGet, Path: "/events"}, s.guarded(s.events)},
	}
	return slices.Concat(routes, s.requestRoutes(), s.taskRoutes(), s.credentialRoutes(), s.auditRoutes(), s.policyRoutes(), s.settingRoutes(), s.visitRoutes(), s.glassRoutes(), s.signInRoutes())
}
