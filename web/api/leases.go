package api

import (
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// leaseAPI serves /v1 for credentials, their use and the revocation feed.
type leaseAPI struct {
	feedMaxAge time.Duration
	b          *core.Broker
}

func (la *leaseAPI) leases(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Lease], error) {
	q := readQuery(c)
	f := broker.LeaseFilter{
		TaskID: q.text("task_id"), Owner: q.text("owner"), Sandbox: q.text("sandbox"), Provider: q.text("provider"),
		State: broker.LeaseState(q.oneOf("state", "intent", "live", "revoking", "revoked", "expired", "unconfirmed")),
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

func (la *leaseAPI) providers(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Provider], error) {
	items, err := la.b.ProviderStates(c.Request().Context(), who)
	return wire.List[wire.Provider]{Items: each(items, wireProvider)}, err
}

// checkProvider runs a provider self-test. The response waits until the test is
// done.
func (la *leaseAPI) checkProvider(c echo.Context, who broker.Principal, body wire.SelfTestSpec) (wire.SelfTest, error) {
	spec, err := brokerSelfTestSpec(body)
	if err != nil {
		return wire.SelfTest{}, err
	}
	outlast(c, provideradmin.SelfTestTime)
	t, err := la.b.TryProvider(c.Request().Context(), who, c.Param("name"), spec)
	ev := web.EventOf(c)
	ev.LeaseID, ev.TaskID = t.LeaseID, t.TaskID
	return wireSelfTest(t), err
}

// leased adds the ids to the log event of the request.
func leased(c echo.Context) func(broker.Lease, error) (wire.Lease, error) {
	return func(l broker.Lease, err error) (wire.Lease, error) {
		ev := web.EventOf(c)
		ev.LeaseID, ev.TaskID = l.ID, l.TaskID
		return wireLease(l), err
	}
}
