package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/receipt"
	"ebb/web"
)

// openedTask is the answer to a runner that opened a task.
type openedTask struct {
	Task            broker.Task `json:"task"`
	Ticket          string      `json:"ticket,omitempty"` // single-use, for the sandbox alone
	TicketExpiresAt time.Time   `json:"ticket_expires_at,omitzero"`
}

type ticketAnswer struct {
	Ticket          string    `json:"ticket"`
	TicketExpiresAt time.Time `json:"ticket_expires_at"`
}

type reasonBody struct {
	Reason string `json:"reason"`
}

type taintBody struct {
	Sources []string `json:"sources"`
}

func (a *API) openTask(c echo.Context, who broker.Principal, spec broker.TaskSpec) (openedTask, error) {
	t, ticket, err := a.b.OpenTask(c.Request().Context(), who, spec)
	if err != nil {
		return openedTask{}, err
	}
	web.EventOf(c).TaskID = t.ID
	out := openedTask{Task: t}
	if ticket != nil {
		out.Ticket, out.TicketExpiresAt = ticket.Ticket.Reveal(), ticket.ExpiresAt
	}
	return out, nil
}

func (a *API) tasks(c echo.Context, who broker.Principal, _ web.None) (page[broker.Task], error) {
	q := readQuery(c)
	f := broker.TaskFilter{
		State: broker.TaskState(q.oneOf("state", "open", "paused", "closed")),
		Open:  q.flag("open"), Owner: q.text("owner"), Runner: q.text("runner"), Kind: q.text("kind"), Page: q.page(),
	}
	if err := q.done(); err != nil {
		return page[broker.Task]{}, err
	}
	list, err := a.b.Tasks(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(t broker.Task) string { return t.ID }), err
}

func (a *API) task(c echo.Context, who broker.Principal, _ web.None) (broker.Task, error) {
	return a.b.Task(c.Request().Context(), who, c.Param("id"))
}

func (a *API) newTicket(c echo.Context, who broker.Principal, _ web.None) (ticketAnswer, error) {
	t, err := a.b.NewTicket(c.Request().Context(), who, c.Param("id"))
	if err != nil {
		return ticketAnswer{}, err
	}
	return ticketAnswer{Ticket: t.Ticket.Reveal(), TicketExpiresAt: t.ExpiresAt}, nil
}

func (a *API) heartbeat(c echo.Context, who broker.Principal, _ web.None) (broker.Task, error) {
	return noted(c)(a.b.Beat(c.Request().Context(), who, c.Param("id")))
}

func (a *API) pauseTask(c echo.Context, who broker.Principal, body reasonBody) (broker.Task, error) {
	return noted(c)(a.b.PauseTask(c.Request().Context(), who, c.Param("id"), body.Reason))
}

func (a *API) taintTask(c echo.Context, who broker.Principal, body taintBody) (broker.Task, error) {
	return noted(c)(a.b.TaintTask(c.Request().Context(), who, c.Param("id"), body.Sources))
}

func (a *API) resumeTask(c echo.Context, who broker.Principal, _ web.None) (broker.Task, error) {
	return noted(c)(a.b.ResumeTask(c.Request().Context(), who, c.Param("id")))
}

func (a *API) completeTask(c echo.Context, who broker.Principal, _ web.None) (broker.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return broker.Completion{}, err
	}
	return ended(c)(a.b.CompleteTask(c.Request().Context(), who, c.Param("id"), wait))
}

func (a *API) stopTask(c echo.Context, who broker.Principal, body reasonBody) (broker.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return broker.Completion{}, err
	}
	return ended(c)(a.b.StopTask(c.Request().Context(), who, c.Param("id"), body.Reason, wait))
}

// endWait is how long the caller wants to wait for what is owed at third parties: wait_seconds, or
// else the preference "wait" (RFC 7240 section 4.3), or else not at all.
func endWait(c echo.Context) (time.Duration, error) {
	const most = int(broker.MaxWait / time.Second)
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

// preferredWait reads the first "wait" of Prefer fields. A preference that is malformed or unknown
// is ignored, as RFC 7240 section 2 says.
func preferredWait(fields []string) (seconds int, asked bool) {
	for _, p := range strings.Split(strings.Join(fields, ","), ",") {
		p, _, _ = strings.Cut(p, ";") // its parameters
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		return int(n), err == nil
	}
	return 0, false
}

// closeTime is what an end takes at most before it waits.
const closeTime = 30 * time.Second

// receiptAnswer is the receipt of a task that is complete.
type receiptAnswer struct {
	Receipt  string          `json:"receipt"` // JWS (RFC 7515)
	Contents receipt.Receipt `json:"contents"`
}

func (a *API) receipt(c echo.Context, who broker.Principal, _ web.None) (receiptAnswer, error) {
	r, jws, err := a.b.Receipt(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = r.Task
	return receiptAnswer{jws, r}, err
}

// noted puts the task's id on the request's log line.
func noted(c echo.Context) func(broker.Task, error) (broker.Task, error) {
	return func(t broker.Task, err error) (broker.Task, error) {
		web.EventOf(c).TaskID = t.ID
		return t, err
	}
}

// ended does too, and writes empty lists as lists.
func ended(c echo.Context) func(broker.Completion, error) (broker.Completion, error) {
	return func(out broker.Completion, err error) (broker.Completion, error) {
		web.EventOf(c).TaskID = out.Task.ID
		if out.Credentials == nil {
			out.Credentials = []broker.Lease{}
		}
		return out, err
	}
}
