package attesttest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

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
		s.rejected(t, "consumed evidence", e)
		return
	}
	if second := s.attest(t, e); !reflect.DeepEqual(first, second) {
		t.Errorf("the same evidence gave %+v and %+v", first, second)
	}
	if other := s.attest(t, s.Good(t)); first.ReplayID == "" || other.ReplayID == first.ReplayID {
		t.Errorf("two pieces of evidence have the replay ids %q and %q", first.ReplayID, other.ReplayID)
	}
	if first.ReplayUntil.Before(first.NotAfter) || !first.ReplayUntil.After(s.Clock.Now()) {
		t.Errorf("the replay claim ends at %v, before the evidence, which ends at %v", first.ReplayUntil, first.NotAfter)
	}
}

func (s Suite) testBad(t *testing.T) {
	for _, name := range Cases() {
		if s.Bad[name] == nil && s.NotApplicable[name] == "" {
			t.Errorf("the suite has no case %q: add it to Bad, or give the reason in NotApplicable", name)
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
	s.attest(t, e) // no hostile document consumed the evidence
}

func (s Suite) testExpiry(t *testing.T) {
	start := s.Clock.Now()
	defer s.Clock.Set(start)
	e := s.Good(t)
	if s.Consumes {
		return
	}
	end := s.attest(t, e).NotAfter
	if s.Fresh > 0 {
		end = start.Add(s.Fresh)
	}
	if end.IsZero() {
		return
	}
	s.Clock.Set(end.Add(-time.Second))
	s.attest(t, e)
	s.Clock.Set(end)
	s.rejected(t, "at its expiry", e)
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
		t.Error("Lures returned no evidence")
	}
	for i, e := range lures {
		if _, err := s.Attestor.Attest(t.Context(), e); err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("lure %d: %v", i, err)
		}
	}
	if n := trap.Dials(); n != 0 {
		t.Errorf("%d connections to an address that only the evidence names, want none", n)
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
	selecting, ok := s.Attestor.(attest.Selecting)
	if !ok {
		t.Fatal("the kind does not implement attest.Selecting")
	}
	for name := range id.Selectors {
		if !slices.Contains(selecting.SelectorNames(), name) {
			t.Errorf("the identity has selector %s, which SelectorNames does not list", name)
		}
	}
	if attest.CheckNames(selecting, map[string]string{"selector of another kind": "x"}) == nil {
		t.Error("a registration of a selector that the kind never sets was accepted")
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
