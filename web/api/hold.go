package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/liveness"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

const (
	defaultGrace = 10 // seconds
	holdRound    = time.Second
	// holdBeat is the interval of empty lines in seconds, so that the network
	// reports a peer that disappeared.
	holdBeat = 10
	// holdWrite limits the write of one line. A sandbox that reads nothing for
	// this time counts as exited.
	holdWrite = 15 * time.Second
)

// hold serves POST /oauth2/hold: the control connection of a sandbox, which
// stays open until the task ends. When the connection breaks, ebb treats the
// sandbox as exited.
func (sa *sandboxAPI) hold(c echo.Context) error {
	f, err := readForm(c.Request(), sa.clients.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := sa.clients.sandbox(c, f)
	if err != nil {
		return err
	}
	grace := defaultGrace
	if f.has(pGrace) {
		if grace, err = strconv.Atoi(f.get(pGrace)); err != nil || grace > int(liveness.MaxGrace/time.Second) {
			return malformed("grace_seconds must be a whole number from 0 to 60.")
		}
	}
	ctx := c.Request().Context()
	h, err := sa.b.Hold(ctx, s, p, time.Duration(grace)*time.Second)
	if errors.Is(err, broker.ErrTaskClosed) {
		// The task ended before the sandbox connected or reconnected. The
		// sandbox waits for the end of its task, so the response is a success.
		return over(c)
	}
	if err != nil {
		return err
	}
	web.EventOf(c).TaskID = h.TaskID()
	if sa.holding(c, h) {
		h.Release()
		return nil
	}
	h.Lost(ctx)
	return nil
}

func open(w *echo.Response) {
	w.Header().Set(echo.HeaderContentType, "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

func over(c echo.Context) error {
	open(c.Response())
	return json.NewEncoder(c.Response()).Encode(wire.HoldLine{Why: wire.HoldTaskClosed})
}

// holding writes lines until the connection or the task ends. It reports
// whether the connection ended in order, and not by an error.
func (sa *sandboxAPI) holding(c echo.Context, h *liveness.Hold) bool {
	w, ctx := c.Response(), c.Request().Context()
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // a writer without deadlines, as in tests, returns an error
	say := func(line []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(holdWrite))
		_, err := w.Write(append(line, '\n'))
		return err == nil && rc.Flush() == nil
	}
	last := func(why string) bool {
		line, err := json.Marshal(wire.HoldLine{TaskID: h.TaskID(), Why: why})
		if err == nil {
			say(line)
		}
		return true
	}
	open(w)
	first, err := json.Marshal(wire.HoldLine{Held: true, TaskID: h.TaskID()})
	if err != nil || !say(first) {
		return false
	}
	t := time.NewTicker(holdRound)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), web.ErrStopping) {
				return last(wire.HoldReconnect)
			}
			return false
		case <-t.C:
		}
		if h.Over() {
			return last(wire.HoldTaskClosed)
		}
		h.Renew(ctx)
		if n%holdBeat == 0 && !say(nil) {
			return false
		}
	}
}
