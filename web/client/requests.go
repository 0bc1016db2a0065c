package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"ebb/broker"
	"ebb/scopes"
)

// Requests lists requests that wait or waited for a person. Of f, TaskID,
// Owner, State, Group, Since and Page are sent.
func (o *Operator) Requests(ctx context.Context, f broker.RequestFilter) (List[broker.Request], error) {
	q := pageQuery(f.Page)
	set(q, "task_id", f.TaskID)
	set(q, "owner", f.Owner)
	set(q, "state", string(f.State))
	set(q, "group", f.Group)
	setTime(q, "since", f.Since)
	var out List[broker.Request]
	return out, o.do(ctx, http.MethodGet, "/v1/requests", q, nil, &out)
}

// Request reads one request with its facts and their digest.
func (o *Operator) Request(ctx context.Context, id string) (broker.Request, error) {
	var out broker.Request
	return out, o.do(ctx, http.MethodGet, requestPath(id, ""), nil, nil, &out)
}

// Approve says yes to exactly the facts with v.Digest, or to less when v.Scopes
// or v.TTL is set. Kind Conflict: the facts have changed, look again.
// Kind StepUpRequired: the risk demands proofs that only the console takes; Problem.Missing names them.
func (o *Operator) Approve(ctx context.Context, id string, v broker.Verdict) (broker.Request, error) {
	in := struct {
		Digest string         `json:"digest"`
		Scopes scopes.Set     `json:"scope,omitzero"`
		TTL    broker.Seconds `json:"ttl_seconds,omitempty"`
		Note   string         `json:"note,omitempty"`
		Target string         `json:"target,omitempty"`
	}{v.Digest, v.Scopes, v.TTL, v.Note, v.Target}
	var out broker.Request
	err := o.do(ctx, http.MethodPost, requestPath(id, "/approve"), nil, in, &out)
	if p, ok := errors.AsType[*Problem](err); ok && p.Kind == broker.StepUpRequired {
		p.Page = page(o.issuer, id)
	}
	return out, err
}

// Deny says no. v.Code tells the agent why; Suspicious also stops the task.
func (o *Operator) Deny(ctx context.Context, id string, v broker.Verdict) (broker.Request, error) {
	in := struct {
		Code   broker.DenyCode `json:"code"`
		Note   string          `json:"note,omitempty"`
		Digest string          `json:"digest,omitempty"`
	}{v.Code, v.Note, v.Digest}
	var out broker.Request
	return out, o.do(ctx, http.MethodPost, requestPath(id, "/deny"), nil, in, &out)
}

func requestPath(id, verb string) string { return "/v1/requests/" + url.PathEscape(id) + verb }
