package api

import (
	"context"
	"encoding/json"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// requestAPI serves /v1 for approval requests.
type requestAPI struct {
	b requestBroker
}

// requestBroker is the part of the broker that requestAPI calls.
type requestBroker interface {
	Requests(ctx context.Context, who broker.Principal, f broker.RequestFilter) ([]broker.Request, error)
	Request(ctx context.Context, who broker.Principal, id string) (broker.Request, error)
	Decide(ctx context.Context, who broker.Principal, id string, v broker.Verdict) (broker.Request, error)
	BreakGlassRecord(ctx context.Context, who broker.Principal, f broker.BreakGlassFilter) ([]broker.BreakGlass, error)
}

func (ra *requestAPI) requests(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Request], error) {
	q := readQuery(c)
	f := broker.RequestFilter{
		TaskID: q.text("task_id"), Owner: q.text("owner"), Group: q.text("group"), Since: q.time("since"),
		State: broker.RequestState(q.oneOf("state", "pending", "approved", "issued", "denied", "expired", "withdrawn")), Page: q.page(),
	}
	if err := q.done(); err != nil {
		return wire.List[wire.Request]{}, err
	}
	list, err := ra.b.Requests(c.Request().Context(), who, f)
	if err != nil {
		return wire.List[wire.Request]{}, err
	}
	out, err := wireRequests(list)
	return paged(out, f.Page.Limit, func(r wire.Request) string { return r.ID }, same), err
}

func (ra *requestAPI) showRequest(c echo.Context, who broker.Principal, _ web.None) (wire.Request, error) {
	return asked(c)(ra.b.Request(c.Request().Context(), who, c.Param("id")))
}

func (ra *requestAPI) approve(c echo.Context, who broker.Principal, body wire.ApprovalBody) (wire.Request, error) {
	v, err := brokerApproval(body)
	if err != nil {
		return wire.Request{}, err
	}
	return asked(c)(ra.b.Decide(c.Request().Context(), who, c.Param("id"), v))
}

func (ra *requestAPI) denyRequest(c echo.Context, who broker.Principal, body wire.DenialBody) (wire.Request, error) {
	return asked(c)(ra.b.Decide(c.Request().Context(), who, c.Param("id"), brokerDenial(body)))
}

// asked adds the ids to the log event of the request.
func asked(c echo.Context) func(broker.Request, error) (wire.Request, error) {
	return func(r broker.Request, err error) (wire.Request, error) {
		ev := web.EventOf(c)
		ev.RequestID, ev.TaskID = r.ID, r.TaskID
		if err != nil {
			return wire.Request{}, err
		}
		return wireRequest(r)
	}
}

// breakGlasses lists break-glass periods, newest first. Starting, ending and
// reviewing a period is possible in the console only.
func (ra *requestAPI) breakGlasses(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.BreakGlass], error) {
	q := readQuery(c)
	f := broker.BreakGlassFilter{Person: q.text("person"), Unreviewed: q.oneOf("state", "unreviewed") != "", After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	q.oneOf("order", "desc")
	if err := q.done(); err != nil {
		return wire.List[wire.BreakGlass]{}, err
	}
	list, err := ra.b.BreakGlassRecord(c.Request().Context(), who, f)
	return paged(list, f.Limit, func(g broker.BreakGlass) string { return g.ID }, wireBreakGlass), err
}

func wireRequest(r broker.Request) (wire.Request, error) {
	reason, err := json.Marshal(r.Reason) // agent text encodes itself as ASCII JSON
	return wire.Request{
		ID: r.ID, Match: r.Match, TaskID: r.TaskID, Sandbox: r.Sandbox, Owner: r.Owner, Runner: r.Runner, Provider: r.Provider,
		Scopes: r.Scopes.String(), Resource: r.Resource, TTL: seconds(r.TTL), Binding: wire.Binding(r.Binding), Tool: r.Tool, Details: r.Details,
		EvidenceEnd: r.EvidenceEnd, Approvers: wireApprovers(r.Approval), Facts: r.Facts, Digest: r.Digest, Reason: reason, Asked: r.Asked,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, State: wire.RequestState(r.State), Votes: each(r.Votes, wireVote), DecidedAt: r.DecidedAt,
		Granted: r.Granted.String(), GrantedTTL: seconds(r.GrantedTTL), GrantUntil: r.GrantUntil, Code: wire.DenyCode(r.Code), Note: r.Note,
	}, err
}

// wireRequests converts a list and keeps the first error.
func wireRequests(list []broker.Request) ([]wire.Request, error) {
	out := make([]wire.Request, len(list))
	for i, r := range list {
		var err error
		if out[i], err = wireRequest(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func wireApprovers(a policy.Approval) wire.Approvers {
	return wire.Approvers{
		Groups: a.Groups, Quorum: a.Quorum,
		Rules: each(a.Rules, func(r policy.AskRule) wire.AskRule { return wire.AskRule(r) }),
	}
}

func wireVote(v broker.Vote) wire.Vote {
	return wire.Vote{
		RequestID: v.RequestID, By: v.By, BreakGlass: v.BreakGlass, Groups: v.Groups, Approve: v.Approve, Digest: v.Digest,
		Scopes: v.Scopes.String(), TTL: seconds(v.TTL), Code: wire.DenyCode(v.Code), Note: v.Note, At: v.At,
	}
}

func brokerApproval(b wire.ApprovalBody) (broker.Verdict, error) {
	set, err := scopeAt("/scope", b.Scopes)
	return broker.Verdict{Approve: true, Digest: b.Digest, Scopes: set, TTL: broker.Seconds(b.TTL), Note: b.Note, Target: b.Target}, err
}

func brokerDenial(b wire.DenialBody) broker.Verdict {
	return broker.Verdict{Digest: b.Digest, Code: broker.DenyCode(b.Code), Note: b.Note}
}

func wireBreakGlass(g broker.BreakGlass) wire.BreakGlass {
	return wire.BreakGlass{
		ID: g.ID, Person: g.Person, Incident: g.Incident, Reason: g.Reason, TTL: seconds(g.TTL), Most: g.Most, AskedAt: g.AskedAt,
		AuthAt: g.AuthAt, ACR: g.ACR, BegunAt: g.BegunAt, EndsAt: g.EndsAt, EndedAt: g.EndedAt, EndedBy: g.EndedBy, Used: g.Used,
		ReviewedAt: g.ReviewedAt, ReviewedBy: g.ReviewedBy, Note: g.Note,
	}
}
