package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// numbered requires a number in every registration, as a kind whose other selectors are shared by
// many sandboxes.
type numbered struct{}

func (numbered) Attest(context.Context, attest.Evidence) (attest.Identity, error) {
	return attest.Identity{}, attest.Reject(attest.ReasonMalformed, "no", nil)
}

func (numbered) CheckRegistration(selectors map[string]string) error {
	if selectors["number"] == "" {
		return errors.New("add number")
	}
	return nil
}

// A task that any sandbox could join is not opened. The expectation for delegates may be open, but
// a delegate's own registration may not.
func TestRegistrar(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Attestors: map[string]attest.Attestor{"box": numbered{}}})
	open := brokertest.Spec()
	open.Ticket, open.Expect = false, broker.Expect{Attestor: "box", Selectors: map[string]string{"uid": "1000"}}
	if _, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], open); broker.AsError(err).Kind != broker.Invalid || !strings.Contains(broker.AsError(err).Public, "add number") {
		t.Errorf("got %v", err)
	}
	open.Expect.Selectors = map[string]string{"number": "7"}
	if _, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], open); err != nil {
		t.Error(err)
	}
	spec := brokertest.Spec()
	spec.Delegation = &broker.Delegation{Depth: 1, Expect: broker.Expect{Attestor: "box", Selectors: map[string]string{"uid": "1000"}}}
	s := e.Open(t, spec)
	part := broker.DelegationSpec{Ceiling: scopes.MustParseSet("orders:eu/1:read")}
	if _, _, err := s.AskDelegate(t, part); broker.AsError(err).Kind != broker.Invalid || !strings.Contains(broker.AsError(err).Public, "add number") {
		t.Errorf("got %v", err)
	}
	part.Selectors = map[string]string{"number": "8"}
	if _, _, err := s.AskDelegate(t, part); err != nil {
		t.Error(err)
	}
}

// wordy reports the selectors that it provides.
type wordy struct{ numbered }

func (wordy) SelectorNames() []string { return []string{"number", "colour"} }

// A registration that no sandbox can ever match opens no task, and the error lists the possible
// selectors; the same holds for expectations for delegates.
func TestSelectorsThatAreNeverGiven(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Attestors: map[string]attest.Attestor{"box": wordy{}}})
	for _, name := range []string{"uid", "Number", "number ", "n\u00famber", "number\x00"} {
		spec := brokertest.Spec()
		spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "box", Selectors: map[string]string{"number": "7", name: "secret-value"}}
		delegated := brokertest.Spec()
		delegated.Delegation = &broker.Delegation{Depth: 1, Expect: spec.Expect}
		for _, s := range []broker.TaskSpec{spec, delegated} {
			_, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], s)
			public := broker.AsError(err).Public
			if broker.AsError(err).Kind != broker.Invalid || !strings.Contains(public, "register one or more of number, colour") || strings.Contains(public, "secret-value") {
				t.Errorf("%q: got %v", name, err)
			}
			if strings.ContainsFunc(public, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
				t.Errorf("%q: the answer is not plain: %q", name, public)
			}
		}
	}
}
