package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/scopes"
	"ebb/web"
)

// approval is an approver's yes to exactly the facts of a digest.
type approval struct {
	Digest string         `json:"digest"`
	Scope  scopes.Set     `json:"scope"`       // narrower than asked, or absent
	TTL    broker.Seconds `json:"ttl_seconds"` // shorter than asked, or absent
	Note   string         `json:"note"`
	Target string         `json:"target"` // the typed name of the target
}

type denial struct {
	Code   broker.DenyCode `json:"code"`
	Note   string          `json:"note"`
	Digest string          `json:"digest"`
}

func (a *API) requests(c echo.Context, who broker.Principal, _ web.None) (page[broker.Request], error) {
	q := readQuery(c)
	f := broker.RequestFilter{
		TaskID: q.text("task_id"), Owner: q.text("owner"), Group: q.text("group"), Since: q.time("since"),
		State: broker.RequestState(q.oneOf("state", "pending", "approved", "issued", "denied", "expired", "withdrawn")), Page: q.page(),
	}
	if err := q.done(); err != nil {
		return page[broker.Request]{}, err
	}
	list, err := a.b.Requests(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(r broker.Request) string { return r.ID }), err
}

func (a *API) showRequest(c echo.Context, who broker.Principal, _ web.None) (broker.Request, error) {
	return asked(c)(a.b.Request(c.Request().Context(), who, c.Param("id")))
}

func (a *API) approve(c echo.Context, who broker.Principal, body approval) (broker.Request, error) {
	v := broker.Verdict{Approve: true, Digest: body.Digest, Scopes: body.Scope, TTL: body.TTL, Note: body.Note, Target: body.Target}
	return asked(c)(a.b.Decide(c.Request().Context(), who, c.Param("id"), v))
}

func (a *API) denyRequest(c echo.Context, who broker.Principal, body denial) (broker.Request, error) {
	v := broker.Verdict{Digest: body.Digest, Code: body.Code, Note: body.Note}
	return asked(c)(a.b.Decide(c.Request().Context(), who, c.Param("id"), v))
}

// asked puts the ids on the request's log line.
func asked(c echo.Context) func(broker.Request, error) (broker.Request, error) {
	return func(r broker.Request, err error) (broker.Request, error) {
		ev := web.EventOf(c)
		ev.RequestID, ev.TaskID = r.ID, r.TaskID
		return r, err
	}
}
