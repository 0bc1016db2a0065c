package providertest

import (
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// ScopesFor checks what an injector of a provider of this name says which scopes are for a request: it has no scope that
// Check or Inject refuses, and it has one when some lease lets the request through (let). lease makes one of a scope.
func ScopesFor(t testing.TB, i provider.Injector, name string, r *http.Request, let bool, lease func(scope string) provider.Target) {
	t.Helper()
	all := i.ScopesFor(name, r)
	if let && len(all) == 0 {
		t.Errorf("%s %s: no scope is named for it", r.Method, r.URL)
	}
	for _, s := range all {
		set, err := scopes.NewSet(s)
		if err == nil {
			err = i.(provider.Driver).Check(set)
		}
		if err == nil {
			err = i.Inject(t.Context(), r.Clone(t.Context()), lease(s.String()))
		}
		if err != nil || s.Provider() != name || !i.Injects(set) {
			t.Errorf("%s %s: %s is named for it: %v", r.Method, r.URL, s, err)
		}
	}
}
