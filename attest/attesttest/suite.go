package attesttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// Suite is how Run drives one kind. Every member is required unless it says so.
type Suite struct {
	// Attestor under test; its clock is Clock and its leeway is zero.
	Attestor attest.Attestor
	Clock    *Clock
	// Good makes valid evidence, a new piece each time.
	Good func(t *testing.T) attest.Evidence
	// Bad makes evidence that must be rejected, by case. The cases of Cases are
	// required, others welcome.
	Bad map[string]func(t *testing.T) attest.Evidence
	// NotApplicable says for a case of Cases why the kind has no such thing.
	NotApplicable map[string]string
	// Down makes an attestor that lacks what it needs to judge, and evidence that
	// is otherwise valid.
	Down func(t *testing.T) (attest.Attestor, attest.Evidence)
	// Lures makes evidence that mentions url wherever a careless attestor might
	// follow it. It may be valid or not.
	Lures func(t *testing.T, url string) []attest.Evidence
	// Consumes is true for a kind whose evidence is spent by Attest.
	Consumes bool
}

// Cases that Bad must cover. "expired" means by one second.
func Cases() []string {
	return []string{"wrong audience", "wrong issuer", "wrong key", "expired", "not yet valid"}
}

// NewKey makes a proved P-256 key, for Evidence.Key.
func NewKey(t testing.TB) attest.Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jkt, err := jose.Thumbprint(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return attest.Key{JKT: jkt, Public: &k.PublicKey}
}

// Run holds an attestor to what attest.Attestor promises.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Attestor == nil || s.Clock == nil || s.Good == nil || s.Down == nil || s.Lures == nil {
		t.Fatal("the suite lacks a member")
	}
	t.Run("valid evidence is accepted", s.testGood)
	t.Run("the replay id is stable", s.testReplay)
	t.Run("bad evidence is rejected", s.testBad)
	t.Run("hostile bytes are rejected", s.testHostile)
	t.Run("evidence ends when it says", s.testExpiry)
	t.Run("could not judge is not rejected", s.testDown)
	t.Run("a cancelled context is respected", s.testCancel)
	t.Run("no claim causes a connection", s.testLures)
	t.Run("selectors are exact", s.testSelectors)
	t.Run("sixteen at once", s.testConcurrent)
}

func (s Suite) attest(t *testing.T, e attest.Evidence) attest.Identity {
	t.Helper()
	id, err := s.Attestor.Attest(t.Context(), e)
	if err != nil {
		t.Fatalf("valid evidence: %v", err)
	}
	return id
}

func (s Suite) rejected(t *testing.T, name string, e attest.Evidence) {
	t.Helper()
	id, err := s.Attestor.Attest(t.Context(), e)
	if !errors.Is(err, attest.ErrRejected) || !reflect.DeepEqual(id, attest.Identity{}) {
		t.Errorf("%s: got %+v, %v; want ErrRejected", name, id, err)
		return
	}
	r, typed := errors.AsType[*attest.Rejection](err)
	if !typed || r.Reason == "" || r.Public == "" {
		t.Errorf("%s: got %v, want a Rejection with a reason and a public sentence", name, err)
		return
	}
	for _, c := range r.Public {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			t.Errorf("%s: %q does not fit into error_description", name, r.Public)
			return
		}
	}
}

func (s Suite) testGood(t *testing.T) {
	e := s.Good(t)
	id := s.attest(t, e)
	if id.Attestor == "" || id.Subject == "" || !jose.Plain(id.Subject) {
		t.Errorf("got attestor %q, subject %q", id.Attestor, id.Subject)
	}
	switch id.Class {
	case attest.ClassHardware, attest.ClassKernel, attest.ClassSigned, attest.ClassTicket, attest.ClassBearer:
	default:
		t.Errorf("got class %q", id.Class)
	}
	if !id.NotAfter.IsZero() && !id.NotAfter.After(s.Clock.Now()) {
		t.Errorf("got NotAfter %v, which has passed", id.NotAfter)
	}
	if id.Key != "" && id.Key != e.Key.JKT {
		t.Errorf("got key %q, want %q", id.Key, e.Key.JKT)
	}
}

func (s Suite) testReplay(t *testing.T) {
	e := s.Good(t)
	first := s.attest(t, e)
	if s.Consumes {
		s.rejected(t, "spent evidence", e)
		return
	}
	if second := s.attest(t, e); !reflect.DeepEqual(first, second) {
		t.Errorf("the same evidence gave %+v and %+v", first, second)
	}
	if other := s.attest(t, s.Good(t)); first.ReplayID == "" || other.ReplayID == first.ReplayID {
		t.Errorf("two pieces of evidence have the replay ids %q and %q", first.ReplayID, other.ReplayID)
	}
	if first.ReplayUntil.Before(first.NotAfter) || !first.ReplayUntil.After(s.Clock.Now()) {
		t.Errorf("the replay claim ends at %v, before the evidence at %v", first.ReplayUntil, first.NotAfter)
	}
}

func (s Suite) testBad(t *testing.T) {
	for _, name := range Cases() {
		if s.Bad[name] == nil && s.NotApplicable[name] == "" {
			t.Errorf("the suite has no case %q, and does not say why", name)
		}
	}
	for name, bad := range s.Bad {
		s.rejected(t, name, bad(t))
	}
	s.attest(t, s.Good(t))
}

func (s Suite) testHostile(t *testing.T) {
	e := s.Good(t)
	for name, doc := range hostile(e.Document) {
		h := e
		h.Document = doc
		s.rejected(t, name, h)
	}
	s.attest(t, e) // none of them spent it
}

func (s Suite) testExpiry(t *testing.T) {
	start := s.Clock.Now()
	defer s.Clock.Set(start)
	e := s.Good(t)
	if s.Consumes {
		return
	}
	end := s.attest(t, e).NotAfter
	if end.IsZero() {
		return
	}
	s.Clock.Set(end.Add(-time.Second))
	s.attest(t, e)
	s.Clock.Set(end)
	s.rejected(t, "at NotAfter", e)
}

func (s Suite) testDown(t *testing.T) {
	a, e := s.Down(t)
	id, err := a.Attest(t.Context(), e)
	if err == nil || errors.Is(err, attest.ErrRejected) || !reflect.DeepEqual(id, attest.Identity{}) {
		t.Errorf("got %+v, %v; want an error that is not ErrRejected", id, err)
	}
}

func (s Suite) testCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := s.Good(t)
	if id, err := s.Attestor.Attest(ctx, e); !errors.Is(err, context.Canceled) || errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %+v, %v; want context.Canceled", id, err)
	}
	s.attest(t, e)
}

func (s Suite) testLures(t *testing.T) {
	trap := NewTrap(t)
	lures := s.Lures(t, trap.URL)
	if len(lures) == 0 {
		t.Error("no lures")
	}
	for i, e := range lures {
		if _, err := s.Attestor.Attest(t.Context(), e); err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("lure %d: %v", i, err)
		}
	}
	if n := trap.Dials(); n != 0 {
		t.Errorf("%d connections to a place that only evidence names", n)
	}
}

func (s Suite) testSelectors(t *testing.T) {
	id := s.attest(t, s.Good(t))
	if err := attest.SelectorMatch(id.Selectors, id); err != nil {
		t.Fatalf("an identity does not match itself: %v (%v)", err, id.Selectors)
	}
	for name, value := range id.Selectors {
		for _, near := range []string{value[:len(value)-1], value + "x", value[:len(value)-1] + "*", "*", " " + value} {
			if near == "" {
				continue
			}
			if err := attest.SelectorMatch(map[string]string{name: near}, id); !errors.Is(err, attest.ErrRejected) {
				t.Errorf("selector %s: %q matches %q: %v", name, near, value, err)
			}
		}
	}
}

func (s Suite) testConcurrent(t *testing.T) {
	const callers = 16
	e := s.Good(t)
	ids, errs := make([]attest.Identity, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { ids[i], errs[i] = s.Attestor.Attest(t.Context(), e) })
	}
	wg.Wait()
	won := 0
	for i := range callers {
		switch {
		case errs[i] == nil:
			won++
		case !s.Consumes || !errors.Is(errs[i], attest.ErrRejected):
			t.Errorf("caller %d: %v", i, errs[i])
		}
		if !s.Consumes && !reflect.DeepEqual(ids[i], ids[0]) {
			t.Errorf("caller %d: got %+v, another %+v", i, ids[i], ids[0])
		}
	}
	if want := map[bool]int{true: 1, false: callers}[s.Consumes]; won != want {
		t.Errorf("%d callers were accepted, want %d", won, want)
	}
}
