package broker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/scopes"
)

// Delegation allows the sandbox of a task to delegate a part of the task's rights to other
// sandboxes. Each of them gets a task of its own. That task is limited by the delegating task
// and ends with it.
type Delegation struct {
	Expect Expect `json:"sandbox_expected"` // selectors that each delegate must have; the delegating sandbox may demand more, never fewer
	Depth  int    `json:"depth"`            // number of levels; 1 = delegates cannot delegate further
	Open   int    `json:"open,omitempty"`   // open delegated tasks at one time below the runner's task, at any depth; 0 = DefaultDelegates
}

// Bounds of delegation.
const (
	MaxDelegationDepth = 4
	DefaultDelegates   = 16
	MaxDelegates       = 256
	MaxDelegatesEver   = 4096 // below one task of a runner over its whole life: ending the task reads each of them
)

// DelegationSpec is what a sandbox delegates. Zero members keep the value of the delegating
// task, unless their comment says otherwise.
type DelegationSpec struct {
	Ceiling   scopes.Set
	TTL       time.Duration // never past the end of the delegating task; 0 = until then
	Uses      int           // credentials in all; required when the delegating task has such a limit
	Selectors map[string]string
	Depth     int // number of further levels of delegation; 0 = none
}

// Child returns the task that t delegates to another sandbox, and is the only place that
// decides what may be delegated: the child exceeds t in nothing. notAfter is the end of the
// delegating sandbox's evidence; the zero time means that the evidence has none. A spec that
// exceeds t is refused, never narrowed, except for the deadline, which is shortened.
func (t Task) Child(s DelegationSpec, id string, now, notAfter time.Time) (Task, error) {
	d := t.Delegation
	switch {
	case d == nil:
		return Task{}, E(Forbidden, "This task may not delegate. Its runner allows it with the member delegation when it opens the task.", nil)
	case s.Ceiling.Empty():
		return Task{}, E(InvalidScope, "Name at least one scope to delegate.", nil)
	case !t.Ceiling.Covers(s.Ceiling):
		return Task{}, &Error{Kind: InvalidScope, Public: "The scope exceeds the ceiling of the task.",
			Advice: &Advice{Decision: "denied", Code: TooBroad, WouldAllow: t.Ceiling.Narrow(s.Ceiling), DoNotRetrySame: true}}
	case s.Depth < 0 || s.Depth >= d.Depth:
		return Task{}, E(Invalid, fmt.Sprintf("depth must be less than that of the task: 0 to %d.", d.Depth-1), nil)
	case s.Uses < 0 || t.Caps.Uses > 0 && (s.Uses < 1 || s.Uses > t.Caps.Uses):
		return Task{}, E(Invalid, "uses must be positive, and at most the uses of the delegating task when those are limited.", nil)
	case s.TTL < 0:
		return Task{}, E(Invalid, "The lifetime must be positive.", nil)
	}
	expect, err := d.Expect.and(s.Selectors)
	if err != nil {
		return Task{}, err
	}
	out := Task{
		ID: id, Name: t.Name, Kind: t.Kind, Owner: t.Owner, Runner: t.Runner, Labels: maps.Clone(t.Labels),
		Ceiling: s.Ceiling, Caps: t.Caps, Expect: expect, OpenedAt: now, Deadline: t.Deadline, State: TaskOpen,
		Ancestors: append(slices.Clone(t.Ancestors), t.ID),
	}
	out.Caps.Uses = s.Uses
	if s.Depth > 0 {
		out.Delegation = &Delegation{Expect: d.Expect, Depth: s.Depth, Open: d.Open}
	}
	if !notAfter.IsZero() && notAfter.Before(out.Deadline) {
		out.Deadline = notAfter
	}
	if end := now.Add(s.TTL); s.TTL > 0 && end.Before(out.Deadline) {
		out.Deadline = end
	}
	if out.Deadline.Sub(now) < time.Second {
		return Task{}, E(Denied, "Less than one second is left until the task or its evidence ends. Open a new task.", nil)
	}
	return out, nil
}

// Root returns the id of the runner's task at the top of the delegation tree: t itself, or its
// first ancestor.
func (t Task) Root() string {
	if len(t.Ancestors) > 0 {
		return t.Ancestors[0]
	}
	return t.ID
}

// and returns e with more selectors. A selector that e already has cannot get another value.
func (e Expect) and(more map[string]string) (Expect, error) {
	all := maps.Clone(e.Selectors)
	if len(more) > 0 && all == nil {
		all = map[string]string{}
	}
	for k, v := range more {
		// A sandbox writes these, and people read them.
		if !LabelForm.MatchString(k) || len(v) > 256 || !jose.Plain(v) {
			return e, E(Invalid, "selectors must have names of a-z A-Z 0-9 . _ / - and printable values of at most 256 bytes.", nil)
		}
		if had, taken := all[k]; taken && had != v {
			return e, E(Invalid, "A selector contradicts what the runner expects of sandboxes that are delegated to.", nil)
		}
		all[k] = v
	}
	if len(more) > 0 {
		if err := attest.CheckSelectors(all); err != nil {
			return e, E(Invalid, "selectors must name the sandbox: 1 to 64 selectors, none empty.", err)
		}
	}
	return Expect{Attestor: e.Attestor, Selectors: all}, nil
}
