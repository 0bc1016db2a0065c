package attesttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Suite is the input of Run, which tests one kind. Every member is required unless its comment
// says otherwise.
type Suite struct {
	// Attestor is the attestor under test. Its clock is Clock and its leeway is zero.
	Attestor attest.Attestor
	Clock    *Clock
	// Good returns valid evidence, a new piece each time.
	Good func(t *testing.T) attest.Evidence
	// Bad maps the name of a case to a function that returns evidence which must be
	// rejected. The cases of Cases are required; a kind may add others.
	Bad map[string]func(t *testing.T) attest.Evidence
	// NotApplicable maps a case of Cases that the kind cannot have to the reason.
	NotApplicable map[string]string
	// Down returns an attestor whose dependency is unavailable, such as its key server,
	// and valid evidence. nil for a kind without dependencies: NotApplicable["down"]
	// then gives the reason.
	Down func(t *testing.T) (attest.Attestor, attest.Evidence)
	// Lures returns evidence that contains url in every place where a careless attestor
	// might connect to it. The evidence may be invalid.
	Lures func(t *testing.T, url string) []attest.Evidence
	// Consumes is true for a kind whose evidence Attest consumes: a second use fails.
	Consumes bool
	// Fresh is how long after Good the evidence is accepted, for kinds whose evidence
	// answers a challenge. The Identity may be valid for longer (NotAfter). 0 means
	// that the evidence is accepted until NotAfter.
	Fresh time.Duration
}

// Cases returns the names of the cases that Bad must have. Evidence of the case
// "expired" expired one second ago.
func Cases() []string {
	return []string{"wrong audience", "wrong issuer", "wrong key", "expired", "not yet valid"}
}

// NewKey returns a new P-256 key for Evidence.Key.
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

// Reason returns the reason in a rejection, "" for other errors and nil.
func Reason(err error) attest.Reason {
	if r, ok := errors.AsType[*attest.Rejection](err); ok {
		return r.Reason
	}
	return ""
}

// Run checks that an attestor keeps the promises of attest.Attestor.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Attestor == nil || s.Clock == nil || s.Good == nil || s.Lures == nil || s.Down == nil && s.NotApplicable["down"] == "" {
		t.Fatal("the suite lacks Attestor, Clock, Good, Lures, or Down with its reason in NotApplicable")
	}
	t.Run("valid evidence is accepted", s.testGood)
	t.Run("the replay id is stable", s.testReplay)
	t.Run("bad evidence is rejected", s.testBad)
	t.Run("hostile bytes are rejected", s.testHostile)
	t.Run("evidence is refused from its expiry", s.testExpiry)
	if s.Down != nil {
		t.Run("could not judge is not rejected", s.testDown)
	}
	t.Run("a cancelled context is respected", s.testCancel)
	t.Run("no claim causes a connection", s.testLures)
	t.Run("selectors match exactly", s.testSelectors)
	t.Run("sixteen concurrent calls", s.testConcurrent)
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
