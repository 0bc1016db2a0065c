package broker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Delegation lets the sandbox of a task hand a part of what the task may to other
// sandboxes. Each of them gets a task of its own, which is bounded by that of who
// delegated and dies with it.
type Delegation struct {
	Expect Expect `json:"sandbox_expected"` // what each of them must be; whoever delegates may demand more, never less
	Depth  int    `json:"depth"`            // how many times in a row; 1 = those it delegates to cannot delegate on
	Open   int    `json:"open,omitempty"`   // how many may be open at one time below the runner's task, at any depth; 0 = DefaultDelegates
}

// Bounds of delegation.
const (
	MaxDelegationDepth = 4
	DefaultDelegates   = 16
	MaxDelegates       = 256
	MaxDelegatesEver   = 4096 // below one task of a runner's, in all its time: the end looks at each of them
)

// DelegationSpec is what a sandbox hands on. Members that are zero stay as they are
// for the one that delegates, unless they say otherwise.
type DelegationSpec struct {
	Ceiling   scopes.Set
	TTL       time.Duration // never past the end of the task that delegates; 0 = until then
	Uses      int           // credentials in all; needed when those of the task that delegates are counted
	Selectors map[string]string
	Depth     int // how many times in a row it may be delegated on; 0 = not at all
}

// child is the one place that says what may be delegated: the task that t becomes
// for another sandbox, wider than t in nothing. notAfter is the end of the evidence
// of who delegates, zero = says nothing. What is not narrower is refused, never cut
// down, but for the end.
func (t Task) child(s DelegationSpec, id string, now, notAfter time.Time) (Task, error) {
	d := t.Delegation
	switch {
	case d == nil:
		return Task{}, E(Forbidden, "This task may not delegate. Its runner says so when it opens it: delegation.", nil)
	case s.Ceiling.Empty():
		return Task{}, E(InvalidScope, "Name at least one scope to delegate.", nil)
	case !t.Ceiling.Covers(s.Ceiling):
		return Task{}, &Error{Kind: InvalidScope, Public: "The scope exceeds the ceiling of the task.",
			Advice: &Advice{Decision: "denied", Code: TooBroad, WouldAllow: t.Ceiling.Narrow(s.Ceiling), DoNotRetrySame: true}}
	case s.Depth < 0 || s.Depth >= d.Depth:
		return Task{}, E(Invalid, fmt.Sprintf("depth must be less than that of the task: 0 to %d.", d.Depth-1), nil)
	case s.Uses < 0 || t.Caps.Uses > 0 && (s.Uses < 1 || s.Uses > t.Caps.Uses):
		return Task{}, E(Invalid, "uses must be positive, and at most what the task has itself when that is counted.", nil)
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
		return Task{}, E(Denied, "Less than a second is left of the task or of the evidence.", nil)
	}
	return out, nil
}

// root is the task of a runner that a task began with: its own, or the first above.
func (t Task) root() string {
	if len(t.Ancestors) > 0 {
		return t.Ancestors[0]
	}
	return t.ID
}

// and is e with more selectors. A selector that e has cannot be given another value.
func (e Expect) and(more map[string]string) (Expect, error) {
	all := maps.Clone(e.Selectors)
	if len(more) > 0 && all == nil {
		all = map[string]string{}
	}
	for k, v := range more {
		// A sandbox writes these, and people read them.
		if !labelForm.MatchString(k) || len(v) > 256 || !jose.Plain(v) {
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

// checkDelegation says what is wrong with a runner's delegation, "" for nothing.
func (b *Broker) checkDelegation(d *Delegation) string {
	switch {
	case d == nil:
		return ""
	case d.Depth < 1 || d.Depth > MaxDelegationDepth:
		return fmt.Sprintf("delegation.depth must be 1 to %d", MaxDelegationDepth)
	case d.Open < 0 || d.Open > MaxDelegates:
		return fmt.Sprintf("delegation.open must be 0 (%d) to %d", DefaultDelegates, MaxDelegates)
	}
	return b.checkExpect("delegation.sandbox_expected", d.Expect)
}

// actor names the sandboxes that act in a task (RFC 8693 section 4.1): its own,
// and inside it the one that delegated to it, and so on.
func (b *Broker) actor(t Task) *provider.Actor {
	var before *provider.Actor
	for _, id := range append(slices.Clone(t.Ancestors), t.ID) {
		before = &provider.Actor{Subject: sandboxOf(id), Issuer: b.cfg.Issuer, Actor: before}
	}
	return before
}
