package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"ebb/broker/audit"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// unknownTTL stands for the lifetime that a denied request asked for.
const unknownTTL = 15 * time.Minute

// maxDepth is more than any broker delegates: a forged export must not make a chain that
// costs its length with each entry.
const maxDepth = 16

// past is what the entries said so far about one task.
type past struct {
	task       policy.Task
	opened     time.Time
	sandbox    policy.Sandbox
	denials    int
	violations int
	taint      []string // sorted
	above      *past    // the task that delegated to it, nil = a runner's
	all        map[string]*past
}

// count adds what policy holds against a task, and so against those above it.
func (p *past) count(denials, violations int) {
	for ; p != nil; p = p.above {
		p.denials, p.violations = p.denials+denials, p.violations+violations
	}
}

// delegate begins the past of a task that p's sandbox delegated to: what it is for
// is p's. Of a task that has begun already, as no broker writes it, nothing changes.
func (p *past) delegate(id string) {
	if p.all[id] != nil || p.task.Depth >= maxDepth {
		return
	}
	d := &past{task: p.task, above: p, all: p.all}
	d.task.ID = id
	d.task.Depth++
	p.all[id] = d
}

// data are the members that matter of the entries' data.
type data struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`
	Owner    string            `json:"owner"`
	Labels   map[string]string `json:"labels"`
	Attestor string            `json:"attestor"`
	Class    string            `json:"class"`
	Subject  string            `json:"subject"`
	Selector map[string]string `json:"selectors"`
	Scope    scopes.Set        `json:"scope"`
	Exp      time.Time         `json:"exp"`
	TTL      int64             `json:"ttl"`
	Tool     string            `json:"tool"`
	Groups   []string          `json:"groups"`
	Quorum   int               `json:"quorum"`
	Policy   string            `json:"policy"`
	Denied   scopes.Set        `json:"denied"`
	CNF      map[string]string `json:"cnf"`
	Facts    *facts            `json:"facts"`
	Sources  []string          `json:"sources"`
	To       string            `json:"to"`
	Delivery string            `json:"delivery"`
	Could    bool              `json:"could_stay"`
	Revoking string            `json:"revocability"`
	Bound    int64             `json:"revocation_bound"`
}

type facts struct {
	Tool       string            `json:"tool"`
	WouldAllow scopes.Set        `json:"would_allow"`
	Policy     string            `json:"policy_version"`
	CNF        map[string]string `json:"cnf"`
	Taint      []string          `json:"taint"`
	Delivery   string            `json:"delivery"`
	Could      bool              `json:"could_stay"`
	Revoking   string            `json:"revocability"`
	Bound      int64             `json:"revocation_bound"`
}

// delivery is how what was asked for would have been delivered. Entries of before it was
// recorded were about what is handed out.
func (d data) delivery() string {
	if d.Facts != nil {
		return cmp.Or(d.Facts.Delivery, policy.DeliveryToken)
	}
	return cmp.Or(d.Delivery, policy.DeliveryToken)
}

// couldStay is that of the query: what goes by egress stays.
func (d data) couldStay() bool {
	return d.delivery() == policy.DeliveryToken && (d.Could || d.Facts != nil && d.Facts.Could)
}

// add takes one entry in and returns the decision it records, if it records one
// that policy made.
func (p *past) add(e audit.Entry) (*policy.Recorded, error) {
	var d data
	if len(e.Data) > 0 && watched(e.Kind) {
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return nil, fmt.Errorf("entry %d of writer %s cannot be understood: %w", e.Seq, e.Writer, err)
		}
	}
	switch e.Kind {
	case audit.TaskOpened:
		p.opened = e.At
		if p.above == nil {
			p.task = policy.Task{ID: e.TaskID, Name: d.Name, Kind: d.Kind, Owner: d.Owner, Labels: d.Labels}
		}
	case audit.TaskDelegated:
		p.delegate(d.To)
	case audit.SandboxEnrolled:
		p.sandbox = policy.Sandbox{ID: e.Actor, Attestor: d.Attestor, Evidence: d.Class, Subject: d.Subject, Selectors: d.Selector}
	case audit.TaskTainted:
		p.taint = append(slices.Clone(p.taint), d.Sources...) // queries keep the slice
		slices.Sort(p.taint)
		p.taint = slices.Compact(p.taint)
	case audit.TokenReplayed:
		p.count(0, 1)
	case audit.RequestDenied:
		p.count(1, 0)
	case audit.LeaseIssued:
		if e.RequestID != "" {
			return nil, nil // people decided; the question to them is on the record by itself
		}
		ttl := d.Exp.Sub(e.At).Round(time.Second)
		return p.recorded(e, d, ttl, policy.Decision{Effect: policy.Allow, Scopes: d.Scope, TTL: ttl, Deliver: d.delivery(), WouldAllow: d.Scope}), nil
	case audit.RequestCreated:
		ttl := time.Duration(d.TTL) * time.Second
		was := policy.Decision{Effect: policy.Ask, Scopes: d.Scope, TTL: ttl, Deliver: d.delivery(),
			Ask: &policy.Approval{Groups: d.Groups, Quorum: d.Quorum, Rules: []policy.AskRule{{Groups: d.Groups, Quorum: d.Quorum}}}}
		if d.Facts != nil {
			was.WouldAllow, was.Version, d.Tool, d.CNF = d.Facts.WouldAllow, d.Facts.Policy, d.Facts.Tool, d.Facts.CNF
		}
		return p.recorded(e, d, ttl, was), nil
	case audit.TokenDenied:
		defer p.count(1, 0)
		if d.Policy == "" {
			return nil, nil // it never came to policy
		}
		return p.recorded(e, d, unknownTTL, policy.Decision{Effect: policy.Deny, Denied: d.Denied, Version: d.Policy}), nil
	}
	return nil, nil
}

func watched(kind string) bool {
	switch kind {
	case audit.TaskOpened, audit.TaskDelegated, audit.TaskTainted, audit.SandboxEnrolled, audit.LeaseIssued, audit.RequestCreated, audit.TokenDenied:
		return true
	}
	return false
}

func (p *past) recorded(e audit.Entry, d data, ttl time.Duration, was policy.Decision) *policy.Recorded {
	if p.task.ID == "" || p.sandbox.ID == "" || d.Scope.Empty() {
		return nil // the export starts after the task did
	}
	q := policy.Query{
		Sandbox: p.sandbox, Task: p.task, Scopes: d.Scope, Tool: d.Tool, TTL: max(ttl, time.Second),
		Binding: policy.BindingDPoP, Delivery: d.delivery(), CouldStay: d.couldStay(),
		Record: policy.Record{Denials: p.denials, Violations: p.violations}, Taint: p.taint,
	}
	q.Task.Age = max(e.At.Sub(p.opened).Truncate(time.Second), 0)
	if d.CNF["x5t#S256"] != "" {
		q.Binding = policy.BindingMTLS
	}
	if d.Facts != nil {
		q.Taint, d.Revoking, d.Bound = d.Facts.Taint, d.Facts.Revoking, d.Facts.Bound
	}
	// Entries of before it was recorded are about ebb's own tokens.
	q.Revocability, q.Bound = cmp.Or(d.Revoking, policy.RevocableInstant), time.Duration(d.Bound)*time.Second
	return &policy.Recorded{Query: q, Decision: was}
}
