package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Subject is a driver under test and a grant it can serve.
type Subject struct {
	Driver provider.Driver
	Grant  func() provider.Grant // returns a new grant each time, with its own lease id
	// Unsupported is a scope that the driver cannot express, or "" when it can express every
	// scope.
	Unsupported string
	// Alive uses a credential at its provider and reports whether it is accepted; nil when
	// only the live store knows.
	Alive func(context.Context, provider.Credential) (bool, error)
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Run("check", func(t *testing.T) { check(t, s) })
	t.Run("describe", func(t *testing.T) { describe(t, s) })
	t.Run("mint", func(t *testing.T) { mint(t, s) })
	t.Run("incomplete grants", func(t *testing.T) { incomplete(t, s) })
	t.Run("revoke is idempotent", func(t *testing.T) { revoke(t, s) })
	t.Run("concurrent", func(t *testing.T) { concurrent(t, s) })
}

func check(t *testing.T, s Subject) {
	if err := s.Driver.Check(s.Grant().Scopes); err != nil {
		t.Errorf("Check of a servable grant: %v", err)
	}
	if err := s.Driver.Check(scopes.Set{}); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("Check of no scope = %v, want ErrUnsupported", err)
	}
	if s.Unsupported != "" {
		if err := s.Driver.Check(scopes.MustParseSet(s.Unsupported)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v, want ErrUnsupported", s.Unsupported, err)
		}
	}
	switch r := s.Driver.Traits().Revocability; r.Class {
	case provider.ClassEventual:
		if r.Bound <= 0 || r.Bound%time.Second != 0 {
			t.Errorf("an eventual revocation needs a bound of whole seconds, not %s", r.Bound)
		}
	case provider.ClassInstant, provider.ClassTTLOnly:
		if r.Bound != 0 {
			t.Errorf("class %s has the bound %s", r.Class, r.Bound)
		}
	default:
		t.Errorf("the class %q is none of the classes", r.Class)
	}
}

// describe: every scope has a description that people can approve by, and it is short.
func describe(t *testing.T, s Subject) {
	d, can := s.Driver.(provider.Describer)
	if !can {
		t.Fatal("the driver is no Describer: nobody could approve anything of its kind")
	}
	answers := []provider.Answer{provider.Yes, provider.No, provider.Unknown}
	for _, sc := range s.Grant().Scopes.Scopes() {
		e, err := d.Describe(sc)
		if err != nil || !slices.Contains(answers, e.Writes) || !slices.Contains(answers, e.Reversible) {
			t.Errorf("Describe(%s) = %+v, %v", sc, e, err)
		}
		if n := len(strings.Fields(e.Sentence)); n == 0 || n > 12 {
			t.Errorf("Describe(%s) says %q, which is not 1 to 12 words", sc, e.Sentence)
		}
		if again, err := d.Describe(sc); err != nil || again != e {
			t.Errorf("Describe(%s) = %+v, %v, and before %+v", sc, again, err, e)
		}
	}
	if s.Unsupported == "" {
		return
	}
	if set := scopes.MustParseSet(s.Unsupported); set.Len() == 1 {
		if e, err := d.Describe(set.Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Describe(%s) = %+v, %v, want ErrUnsupported", s.Unsupported, e, err)
		}
	}
}

func mint(t *testing.T, s Subject) {
	g := s.Grant()
	c, err := s.Driver.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if c.Token.Empty() || (c.Type != "DPoP" && c.Type != "Bearer" && c.Type != "N_A") {
		t.Errorf("credential has token %v and type %q", !c.Token.Empty(), c.Type)
	}
	if c.ExpiresAt.After(g.ExpiresAt) {
		t.Errorf("credential expires %v, after its grant %v", c.ExpiresAt, g.ExpiresAt)
	}
	for _, printed := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c.Token), mustJSON(t, c)} {
		if strings.Contains(printed, c.Token.Reveal()) {
			t.Error("printing a credential shows its token")
		}
	}
	if s.Alive != nil {
		if alive, err := s.Alive(t.Context(), c); err != nil || !alive {
			t.Errorf("a new credential is not accepted: %v %v", alive, err)
		}
	}
}

func incomplete(t *testing.T, s Subject) {
	for name, spoil := range map[string]func(*provider.Grant){
		"no lease id":   func(g *provider.Grant) { g.LeaseID = "" },
		"no scope":      func(g *provider.Grant) { g.Scopes = scopes.Set{} },
		"expired":       func(g *provider.Grant) { g.ExpiresAt = g.IssuedAt },
		"zero lifetime": func(g *provider.Grant) { g.ExpiresAt = time.Time{} },
	} {
		g := s.Grant()
		spoil(&g)
		if c, err := s.Driver.Mint(t.Context(), g); err == nil {
			t.Errorf("%s: minted a %s credential", name, c.Type)
		}
	}
}

func revoke(t *testing.T, s Subject) {
	g := s.Grant()
	c, err := s.Driver.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Driver.Revoke(t.Context(), target(g, c)); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
	}
	if err := s.Driver.Revoke(t.Context(), target(s.Grant(), provider.Credential{})); err != nil && !errors.Is(err, provider.ErrLost) {
		t.Errorf("Revoke of a lease that was never minted: %v", err)
	}
	if s.Alive != nil && s.Driver.Traits().Revocability.Class == provider.ClassInstant {
		if alive, err := s.Alive(t.Context(), c); err != nil || alive {
			t.Errorf("a revoked credential is accepted: %v %v", alive, err)
		}
	}
}

func concurrent(t *testing.T, s Subject) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c, err := s.Driver.Mint(t.Context(), s.Grant())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[c.Token.Reveal()] {
				t.Error("two grants got the same token")
			}
			seen[c.Token.Reveal()] = true
		})
	}
	wg.Wait()
}

// target returns the broker's stored state for a grant and its credential.
func target(g provider.Grant, c provider.Credential) provider.Target {
	return provider.Target{
		LeaseID: g.LeaseID, Instance: g.Instance, TaskID: g.TaskID, Scopes: g.Scopes, Handle: c.Handle,
		IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, DiesAt: c.DiesAt, Now: g.IssuedAt,
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ScopesFor checks the scopes that an injector names for a request: Check and Inject accept
// each of them, and there is at least one when some lease allows the request (let). lease
// returns the Target of a lease for a scope.
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
