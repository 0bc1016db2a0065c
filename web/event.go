package web

import (
	"log/slog"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// Event is the log event of one request, written at its end. Handlers set ids
// and the operation; never a token, a header, a query or a body.
type Event struct {
	ID        string      // request id; the instance of a problem document
	Kind      broker.Kind // kind of the error, "" on success
	Cause     error       // cause of the error, for the log only
	Actor     string      // principal or sandbox
	Operation string      // e.g. a grant type's short name
	TaskID    string
	LeaseID   string
	RequestID string
	Quiet     bool // probes: logged at debug
}

const eventKey = "ebb.event"

// EventOf returns the event of the request being served.
func EventOf(c echo.Context) *Event {
	if ev, ok := c.Get(eventKey).(*Event); ok {
		return ev
	}
	// Only outside a Mux, as in a handler's own test.
	ev := &Event{}
	c.Set(eventKey, ev)
	return ev
}

// fail records the error of the request.
func (ev *Event) fail(e *broker.Error) { ev.Kind, ev.Cause = e.Kind, e.Cause }

func (ev *Event) attrs(to []slog.Attr) []slog.Attr {
	for _, a := range []struct{ name, value string }{
		{"operation", ev.Operation}, {"actor", ev.Actor}, {"task_id", ev.TaskID}, {"lease_id", ev.LeaseID},
		{"approval_request_id", ev.RequestID}, {"kind", string(ev.Kind)},
	} {
		if a.value != "" {
			to = append(to, slog.String(a.name, a.value))
		}
	}
	if ev.Cause != nil {
		to = append(to, slog.String("cause", ev.Cause.Error()))
	}
	return to
}
