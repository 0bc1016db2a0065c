package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// unknownTTL replaces the requested lifetime of a denied request, which the log does not hold.
const unknownTTL = 15 * time.Minute

// maxDepth is above the delegation depth of any broker. It bounds the cost of a forged export with
// a long chain of delegations.
const maxDepth = 16

// past is the state of one task as of the entries read so far.
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

// count adds denials and violations to the task and to its ancestors.
func (p *past) count(denials, violations int) {
	for ; p != nil; p = p.above {
		p.denials, p.violations = p.denials+denials, p.violations+violations
	}
}

// delegate starts the past of a task that p's sandbox delegated to; the new task has p's purpose.
// If the task exists already, which no broker writes, nothing changes.
func (p *past) delegate(id string) {
	if p.all[id] != nil || p.task.Depth >= maxDepth {
		return
	}
	d := &past{task: p.task, above: p, all: p.all}
	d.task.ID = id
	d.task.Depth++
	p.all[id] = d
}

// data holds the members of the entries' data that replay needs.
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
	Content  policy.Content    `json:"content"`
	Most     amount.Limits     `json:"max_amount"`
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
	Content    *content.Facts    `json:"content"`
	Most       amount.Limits     `json:"max_amount"`
}

// delivery returns the requested way of delivery. Entries from before it was recorded are about
// credentials that the sandbox receives.
func (d data) delivery() string {
	if d.Facts != nil {
		return cmp.Or(d.Facts.Delivery, policy.DeliveryToken)
	}
	return cmp.Or(d.Delivery, policy.DeliveryToken)
}

// couldStay reports whether the credential would have stayed in ebb: delivery by egress.
func (d data) couldStay() bool {
	return d.delivery() == policy.DeliveryToken && (d.Could || d.Facts != nil && d.Facts.Could)
}

// add reads one entry and returns the policy decision that it records, or nil.
func (p *past) add(e audit.Entry) (*policy.Recorded, error) {
	var d data
	if len(e.Data) > 0 && watched(e.Kind) {
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return nil, fmt.Errorf("the data of entry %d of writer %s has another form than its kind has in this version: %w", e.Seq, e.Writer, err)
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
		return p.recorded(e, d, ttl, policy.Decision{Effect: policy.Allow, Scopes: d.Scope, TTL: ttl, MaxAmount: d.Most, Deliver: d.delivery(), WouldAllow: d.Scope}), nil
	case audit.RequestCreated:
		ttl := time.Duration(d.TTL) * time.Second
		was := policy.Decision{Effect: policy.Ask, Scopes: d.Scope, TTL: ttl, Deliver: d.delivery(),
			Ask: &policy.Approval{Groups: d.Groups, Quorum: d.Quorum, Rules: []policy.AskRule{{Groups: d.Groups, Quorum: d.Quorum}}}}
		if d.Facts != nil {
			was.WouldAllow, was.Version, was.MaxAmount = d.Facts.WouldAllow, d.Facts.Policy, d.Facts.Most
			d.Tool, d.CNF, d.Content = d.Facts.Tool, d.Facts.CNF, provider.PolicyContent(d.Facts.Content)
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
		Record: policy.Record{Denials: p.denials, Violations: p.violations}, Taint: p.taint, Content: d.Content,
	}
	q.Task.Age = max(e.At.Sub(p.opened).Truncate(time.Second), 0)
	if d.CNF["x5t#S256"] != "" {
		q.Binding = policy.BindingMTLS
	}
	if d.Facts != nil {
		q.Taint, d.Revoking, d.Bound = d.Facts.Taint, d.Facts.Revoking, d.Facts.Bound
	}
	// Entries from before the class was recorded are about ebb's own tokens.
	q.Revocability, q.Bound = cmp.Or(d.Revoking, policy.RevocableInstant), time.Duration(d.Bound)*time.Second
	return &policy.Recorded{Query: q, Decision: was}
}
