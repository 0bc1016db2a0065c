package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// holdLine is one line of the answer: the first says held, the last why it ends.
type holdLine struct {
	Held   bool   `json:"held"`
	TaskID string `json:"task_id,omitempty"`
	Why    string `json:"why,omitempty"` // task_closed, or reconnect: the broker is about to end
}

const (
	taskClosed   = "task_closed"
	defaultGrace = 10 // seconds
	holdRound    = time.Second
	// holdBeat is how often the connection shows signs of life, so that a peer that
	// vanished without a word is noticed by what the network makes of them.
	holdBeat = 10
	// holdWrite bounds one line: a sandbox that reads nothing for so long is gone.
	holdWrite = 15 * time.Second
)

// hold is POST /oauth2/hold: it keeps a connection of a sandbox open until its task ends. When it breaks, the
// sandbox is taken for gone.
func (a *API) hold(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := a.sandbox(c, f)
	if err != nil {
		return err
	}
	grace := defaultGrace
	if f.has(pGrace) {
		if grace, err = strconv.Atoi(f.get(pGrace)); err != nil || grace > int(broker.MaxGrace/time.Second) {
			return malformed("grace_seconds is a number, 0 to 60.")
		}
	}
	ctx := c.Request().Context()
	h, err := a.b.Hold(ctx, s, p, time.Duration(grace)*time.Second)
	if errors.Is(err, broker.ErrTaskClosed) {
		// It ended before the sandbox was here, or was back. That is what the sandbox
		// waits for, and no fault of its own.
		return over(c)
	}
	if err != nil {
		return err
	}
	web.EventOf(c).TaskID = h.TaskID()
	if a.holding(c, h) {
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
	return json.NewEncoder(c.Response()).Encode(holdLine{Why: taskClosed})
}

// holding writes until the connection or the task ends, and says whether that was in
// good order.
func (a *API) holding(c echo.Context, h *broker.Hold) bool {
	w, ctx := c.Response(), c.Request().Context()
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // not every writer has deadlines
	say := func(line []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(holdWrite))
		_, err := w.Write(append(line, '\n'))
		return err == nil && rc.Flush() == nil
	}
	last := func(why string) bool {
		line, err := json.Marshal(holdLine{TaskID: h.TaskID(), Why: why})
		if err == nil {
			say(line)
		}
		return true
	}
	open(w)
	first, err := json.Marshal(holdLine{Held: true, TaskID: h.TaskID()})
	if err != nil || !say(first) {
		return false
	}
	t := time.NewTicker(holdRound)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), web.ErrStopping) {
				return last("reconnect")
			}
			return false
		case <-t.C:
		}
		if h.Over() {
			return last(taskClosed)
		}
		h.Renew(ctx)
		if n%holdBeat == 0 && !say(nil) {
			return false
		}
	}
}
