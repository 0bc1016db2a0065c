package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

func (a *API) leases(c echo.Context, who broker.Principal, _ web.None) (page[broker.Lease], error) {
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
		return page[broker.Lease]{}, err
	}
	list, err := a.b.Leases(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(l broker.Lease) string { return l.ID }), err
}

func (a *API) lease(c echo.Context, who broker.Principal, _ web.None) (broker.Lease, error) {
	return leased(c)(a.b.Lease(c.Request().Context(), who, c.Param("id")))
}

func (a *API) revokeLease(c echo.Context, who broker.Principal, body reasonBody) (broker.Lease, error) {
	return leased(c)(a.b.RevokeLease(c.Request().Context(), who, c.Param("id"), body.Reason))
}

func (a *API) retryLease(c echo.Context, who broker.Principal, _ web.None) (broker.Lease, error) {
	return leased(c)(a.b.RetryLease(c.Request().Context(), who, c.Param("id")))
}

func (a *API) forceLease(c echo.Context, who broker.Principal, body reasonBody) (broker.Lease, error) {
	return leased(c)(a.b.ForceLease(c.Request().Context(), who, c.Param("id"), body.Reason))
}

// providerList is every provider, which are few.
type providerList struct {
	Items []broker.ProviderState `json:"items"`
}

func (a *API) providers(c echo.Context, who broker.Principal, _ web.None) (providerList, error) {
	items, err := a.b.ProviderStates(c.Request().Context(), who)
	return providerList{items}, err
}

// checkProvider tries a provider out, which takes as long as the provider does.
func (a *API) checkProvider(c echo.Context, who broker.Principal, spec broker.TrialSpec) (broker.Trial, error) {
	outlast(c, broker.TrialTime)
	t, err := a.b.TryProvider(c.Request().Context(), who, c.Param("name"), spec)
	ev := web.EventOf(c)
	ev.LeaseID, ev.TaskID = t.LeaseID, t.TaskID
	return t, err
}

// leased puts the ids on the request's log line.
func leased(c echo.Context) func(broker.Lease, error) (broker.Lease, error) {
	return func(l broker.Lease, err error) (broker.Lease, error) {
		ev := web.EventOf(c)
		ev.LeaseID, ev.TaskID = l.ID, l.TaskID
		return l, err
	}
}
