package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

func (a *API) openTask(c echo.Context, who broker.Principal, body wire.TaskSpec) (wire.OpenedTask, error) {
	spec, err := brokerTaskSpec(body)
	if err != nil {
		return wire.OpenedTask{}, err
	}
	t, ticket, err := a.b.OpenTask(c.Request().Context(), who, spec)
	if err != nil {
		return wire.OpenedTask{}, err
	}
	web.EventOf(c).TaskID = t.ID
	return wireOpenedTask(t, ticket), nil
}

func (a *API) tasks(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Task], error) {
	q := readQuery(c)
	f := broker.TaskFilter{
		State: broker.TaskState(q.oneOf("state", "open", "paused", "closed")),
		Open:  q.flag("open"), Owner: q.text("owner"), Runner: q.text("runner"), Kind: q.text("kind"), Page: q.page(),
	}
	if err := q.done(); err != nil {
		return wire.List[wire.Task]{}, err
	}
	list, err := a.b.Tasks(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(t broker.Task) string { return t.ID }, wireTask), err
}

func (a *API) task(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	t, err := a.b.Task(c.Request().Context(), who, c.Param("id"))
	return wireTask(t), err
}

func (a *API) newTicket(c echo.Context, who broker.Principal, _ web.None) (wire.Ticket, error) {
	t, err := a.b.NewTicket(c.Request().Context(), who, c.Param("id"))
	if err != nil {
		return wire.Ticket{}, err
	}
	return wireTicket(t), nil
}

func (a *API) heartbeat(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	return noted(c)(a.b.Beat(c.Request().Context(), who, c.Param("id")))
}

func (a *API) pauseTask(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Task, error) {
	return noted(c)(a.b.PauseTask(c.Request().Context(), who, c.Param("id"), body.Reason))
}

func (a *API) taintTask(c echo.Context, who broker.Principal, body wire.TaintBody) (wire.Task, error) {
	return noted(c)(a.b.TaintTask(c.Request().Context(), who, c.Param("id"), body.Sources))
}

func (a *API) resumeTask(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	return noted(c)(a.b.ResumeTask(c.Request().Context(), who, c.Param("id")))
}

func (a *API) completeTask(c echo.Context, who broker.Principal, _ web.None) (wire.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return wire.Completion{}, err
	}
	return ended(c)(a.b.CompleteTask(c.Request().Context(), who, c.Param("id"), wait))
}

func (a *API) stopTask(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return wire.Completion{}, err
	}
	return ended(c)(a.b.StopTask(c.Request().Context(), who, c.Param("id"), body.Reason, wait))
}

// endWait returns the time to wait for pending revocations at third parties:
// wait_seconds, or else the preference "wait" (RFC 7240 section 4.3), or else
// 0.
func endWait(c echo.Context) (time.Duration, error) {
	const most = int(revocation.MaxWait / time.Second)
	q := readQuery(c)
	preferred, asked := preferredWait(c.Request().Header.Values("Prefer"))
	preferred = min(preferred, most)
	seconds := q.number("wait_seconds", preferred, 0, most)
	if err := q.done(); err != nil {
		return 0, err
	}
	if asked && seconds == preferred {
		c.Response().Header().Set("Preference-Applied", "wait="+strconv.Itoa(seconds))
	}
	wait := time.Duration(seconds) * time.Second
	outlast(c, wait+closeTime)
	return wait, nil
}

// preferredWait reads the first "wait" of the Prefer fields. A malformed or
// unknown preference is ignored (RFC 7240 section 2).
func preferredWait(fields []string) (seconds int, asked bool) {
	for _, p := range strings.Split(strings.Join(fields, ","), ",") {
		p, _, _ = strings.Cut(p, ";") // without its parameters
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		return int(n), err == nil
	}
	return 0, false
}

// closeTime is the time for completing or stopping a task, without the wait.
const closeTime = 30 * time.Second

func (a *API) receipt(c echo.Context, who broker.Principal, _ web.None) (wire.ReceiptAnswer, error) {
	r, jws, err := a.b.Receipt(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = r.Task
	return wire.ReceiptAnswer{Receipt: jws, Contents: wireReceipt(r)}, err
}

// noted adds the task's id to the log event of the request.
func noted(c echo.Context) func(broker.Task, error) (wire.Task, error) {
	return func(t broker.Task, err error) (wire.Task, error) {
		web.EventOf(c).TaskID = t.ID
		return wireTask(t), err
	}
}

// ended does the same for the response to complete and stop.
func ended(c echo.Context) func(broker.Completion, error) (wire.Completion, error) {
	return func(out broker.Completion, err error) (wire.Completion, error) {
		web.EventOf(c).TaskID = out.Task.ID
		return wireCompletion(out), err
	}
}
