package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// leaseAPI serves /v1 for credentials and the revocation feed.
type leaseAPI struct {
	feedMaxAge time.Duration
	b          leaseBroker
}

// leaseBroker is the part of the broker that leaseAPI calls.
type leaseBroker interface {
	Leases(ctx context.Context, who broker.Principal, f broker.LeaseFilter) ([]broker.Lease, error)
	Lease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error)
	RevokeLease(ctx context.Context, who broker.Principal, id string, reason string) (broker.Lease, error)
	RetryLease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error)
	ForceLease(ctx context.Context, who broker.Principal, id string, reason string) (broker.Lease, error)
	Follow(ctx context.Context, who broker.Principal, cursor string, limit int, wait time.Duration) ([]broker.Event, string, error)
}

var leaseStates = []string{"intent", "live", "revoking", "revoked", "expired", "unconfirmed"}

func (la *leaseAPI) leases(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Lease], error) {
	q := readQuery(c)
	f := broker.LeaseFilter{
		TaskID: q.text("task_id"), Owner: q.text("owner"), Sandbox: q.text("sandbox"), Provider: q.text("provider"),
		State: broker.LeaseState(q.oneOf("state", leaseStates...)),
		From:  q.time("from"), To: q.time("to"), Page: q.page(),
	}
	if id := q.text("parent_id"); id != "" {
		f.Parents = []string{id}
	}
	if err := q.done(); err != nil {
		return wire.List[wire.Lease]{}, err
	}
	list, err := la.b.Leases(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(l broker.Lease) string { return l.ID }, wireLease), err
}

func (la *leaseAPI) lease(c echo.Context, who broker.Principal, _ web.None) (wire.Lease, error) {
	return leased(c)(la.b.Lease(c.Request().Context(), who, c.Param("id")))
}

func (la *leaseAPI) revokeLease(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Lease, error) {
	return leased(c)(la.b.RevokeLease(c.Request().Context(), who, c.Param("id"), body.Reason))
}

func (la *leaseAPI) retryLease(c echo.Context, who broker.Principal, _ web.None) (wire.Lease, error) {
	return leased(c)(la.b.RetryLease(c.Request().Context(), who, c.Param("id")))
}

func (la *leaseAPI) forceLease(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Lease, error) {
	return leased(c)(la.b.ForceLease(c.Request().Context(), who, c.Param("id"), body.Reason))
}

// leased adds the ids to the log event of the request.
func leased(c echo.Context) func(broker.Lease, error) (wire.Lease, error) {
	return func(l broker.Lease, err error) (wire.Lease, error) {
		ev := web.EventOf(c)
		ev.LeaseID, ev.TaskID = l.ID, l.TaskID
		return wireLease(l), err
	}
}

const (
	maxWait   = 25 // seconds; below the usual 30 s of proxies
	maxEvents = 1000
)

// anyWait is the largest accepted wait_seconds. A value above maxWait is
// reduced to maxWait.
const anyWait = 3600

// revocations serves a long poll: the response comes with the first event, or
// empty after wait_seconds.
func (la *leaseAPI) revocations(c echo.Context, who broker.Principal, _ web.None) (wire.Feed, error) {
	q := readQuery(c)
	cursor := q.text("cursor")
	wait := time.Duration(min(q.number("wait_seconds", 0, 0, anyWait), maxWait)) * time.Second
	limit := q.number("limit", maxEvents, 1, maxEvents)
	if err := q.done(); err != nil {
		return wire.Feed{}, err
	}
	outlast(c, wait)
	events, next, err := la.b.Follow(c.Request().Context(), who, cursor, limit, wait)
	page := wire.Feed{Events: each(events, wireEvent), Cursor: next, MaxAge: int64(la.feedMaxAge.Seconds())}
	if events == nil {
		page.Events = []wire.Event{}
	}
	if !who.HearsAll() {
		page.Audiences = who.Audiences
	}
	return page, err
}

// outlast extends the write deadline of the response to d plus 15 s.
func outlast(c echo.Context, d time.Duration) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(d + 15*time.Second)) // a writer without deadlines, as in tests, returns an error
}

func wireLease(l broker.Lease) wire.Lease {
	return wire.Lease{
		ID: l.ID, TaskID: l.TaskID, Sandbox: l.Sandbox, Owner: l.Owner, Provider: l.Provider, Scopes: l.Scopes.String(), Resource: l.Resource,
		Binding: wire.Binding(l.Binding), Class: wire.Class(l.Class), RequestID: l.RequestID, ParentID: l.ParentID, Rule: l.Rule, Tool: l.Tool,
		Delivery: l.Delivery, Txn: l.Txn, IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, Content: l.Content, MaxAmount: each(l.MaxAmount, amount.Amount.String),
		State: wire.LeaseState(l.State), RevokedAt: l.RevokedAt, RevokedBy: l.RevokedBy, Cause: wire.Cause(l.Cause),
		Upstream: ref(l.Upstream, wireUpstream),
	}
}

func wireUpstream(u broker.Upstream) wire.Upstream {
	return wire.Upstream{
		Bound: seconds(u.Bound), DiesAt: u.DiesAt, AcceptedAt: u.AcceptedAt, DeadAt: u.DeadAt, Proof: wire.Proof(u.Proof), ProbedAt: u.ProbedAt,
		Attempts: u.Attempts, NextAt: u.NextAt, LastError: u.LastError,
	}
}

func wireEndpoint(e provider.Endpoint) wire.Endpoint {
	return wire.Endpoint{Protocol: e.Protocol, Host: e.Host.String(), Database: e.Database}
}

func wireEvent(e broker.Event) wire.Event { return wire.Event(e) }
