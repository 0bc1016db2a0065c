package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// requestAPI serves /v1 for approval requests.
type requestAPI struct {
	b *core.Broker
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
