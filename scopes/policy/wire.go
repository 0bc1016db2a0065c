package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// The JSON of Query and Decision is stored in the audit log and replayed years later: members are
// only ever added. A golden file holds it. Durations are whole seconds.

type wireTask struct {
	ID     string            `json:"id"`
	Kind   string            `json:"kind"`
	Owner  string            `json:"owner"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Age    int64             `json:"age_seconds"`
	Depth  int               `json:"depth,omitempty"`
}

type wireQuery struct {
	Sandbox  Sandbox    `json:"sandbox"`
	Task     wireTask   `json:"task"`
	Scopes   scopes.Set `json:"scope"`
	Tool     string     `json:"tool,omitempty"`
	TTL      int64      `json:"ttl_seconds"`
	Binding  string     `json:"binding"`
	Delivery string     `json:"delivery"`
	Could    bool       `json:"could_stay,omitempty"`
	Revoking string     `json:"revocability,omitempty"` // missing in records from before this member existed
	Bound    int64      `json:"revocation_bound,omitempty"`
	Record   Record     `json:"record"`
	Taint    []string   `json:"taint,omitempty"`
	Content  *Content   `json:"content,omitempty"`
}

// MarshalJSON writes the stable form; Taint is a set, hence sorted.
func (q Query) MarshalJSON() ([]byte, error) {
	taint := slices.Clone(q.Taint)
	slices.Sort(taint)
	var content *Content
	if q.Content.Kind != "" {
		content = &q.Content
	}
	return json.Marshal(wireQuery{
		Sandbox: q.Sandbox,
		Task: wireTask{
			ID: q.Task.ID, Kind: q.Task.Kind, Owner: q.Task.Owner, Name: q.Task.Name,
			Labels: q.Task.Labels, Age: seconds(q.Task.Age), Depth: q.Task.Depth,
		},
		Scopes: q.Scopes, Tool: q.Tool, TTL: seconds(q.TTL), Binding: q.Binding, Delivery: q.Delivery, Could: q.CouldStay,
		Revoking: q.Revocability, Bound: seconds(q.Bound), Record: q.Record, Taint: slices.Compact(taint), Content: content,
	})
}

// UnmarshalJSON reads the stable form; an unknown member is an error.
func (q *Query) UnmarshalJSON(b []byte) error {
	var w wireQuery
	if err := strictly(b, &w); err != nil {
		return fmt.Errorf("policy: query: %w", err)
	}
	age, errAge := duration(w.Task.Age)
	ttl, errTTL := duration(w.TTL)
	bound, errBound := duration(w.Bound)
	if err := errors.Join(errAge, errTTL, errBound); err != nil {
		return fmt.Errorf("policy: query: %w", err)
	}
	*q = Query{
		Sandbox: w.Sandbox,
		Task: Task{
			ID: w.Task.ID, Kind: w.Task.Kind, Owner: w.Task.Owner, Name: w.Task.Name,
			Labels: w.Task.Labels, Age: age, Depth: w.Task.Depth,
		},
		Scopes: w.Scopes, Tool: w.Tool, TTL: ttl, Binding: w.Binding, Delivery: w.Delivery, CouldStay: w.Could,
		Revocability: w.Revoking, Bound: bound, Record: w.Record, Taint: w.Taint,
	}
	if w.Content != nil {
		q.Content = *w.Content
	}
	return nil
}

type wireDecision struct {
	Effect     Effect        `json:"effect"`
	Scopes     scopes.Set    `json:"scope"`
	TTL        int64         `json:"ttl_seconds"`
	Ask        *Approval     `json:"ask,omitempty"`
	MaxAmount  amount.Limits `json:"max_amount,omitzero"`
	Deliver    string        `json:"deliver,omitempty"`
	Rules      []string      `json:"rules,omitempty"`
	Why        []string      `json:"why,omitempty"`
	WouldAllow scopes.Set    `json:"would_allow"`
	Denied     scopes.Set    `json:"denied"`
	Version    string        `json:"policy_version"`
}

// MarshalJSON writes the stable form.
func (d Decision) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireDecision{
		Effect: d.Effect, Scopes: d.Scopes, TTL: seconds(d.TTL), Ask: d.Ask, MaxAmount: d.MaxAmount, Deliver: d.Deliver, Rules: d.Rules,
		Why: d.Why, WouldAllow: d.WouldAllow, Denied: d.Denied, Version: d.Version,
	})
}

// UnmarshalJSON reads the stable form; an unknown member is an error.
func (d *Decision) UnmarshalJSON(b []byte) error {
	var w wireDecision
	if err := strictly(b, &w); err != nil {
		return fmt.Errorf("policy: decision: %w", err)
	}
	ttl, err := duration(w.TTL)
	if err != nil {
		return fmt.Errorf("policy: decision: %w", err)
	}
	*d = Decision{
		Effect: w.Effect, Scopes: w.Scopes, TTL: ttl, Ask: w.Ask, MaxAmount: w.MaxAmount, Deliver: w.Deliver,
		Rules: w.Rules, Why: w.Why, WouldAllow: w.WouldAllow, Denied: w.Denied, Version: w.Version,
	}
	return nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// duration refuses values that overflow: a wrapped number could turn a long time into a short or
// negative one.
func duration(seconds int64) (time.Duration, error) {
	d := time.Duration(seconds) * time.Second
	if int64(d/time.Second) != seconds {
		return 0, fmt.Errorf("%d seconds are out of range", seconds)
	}
	return d, nil
}

func strictly(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
