package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// dependency is one line of /readyz. What exactly is wrong is in the log: the
// page is open to everybody.
type dependency struct {
	Name    string `json:"name"`
	State   string `json:"state"` // up, warning, down
	Warning string `json:"warning,omitempty"`
	Reason  string `json:"reason,omitempty"` // why it is down, where the store knows a sentence for it
}

type readyAnswer struct {
	Status       string       `json:"status"` // ready, not_ready
	Dependencies []dependency `json:"dependencies"`
}

// readyFor is how long one look at the dependencies answers everybody: the page
// needs no credentials and must not be a way to load the stores.
const readyFor = time.Second

// readyWait is how long a dependency may take to answer and still count as up.
const readyWait = 3 * time.Second

type readiness struct {
	mu    sync.Mutex
	until time.Time
	last  readyAnswer
	cause error
}

// RegisterProbes adds /livez, /readyz and, with a handler, /metrics, at the root
// of the host. They are apart from Register so that an operator can put them on
// a listener of their own.
func (a *API) RegisterProbes(m *web.Mux, metrics http.Handler) {
	quiet := func(h echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			web.EventOf(c).Quiet = true
			return h(c)
		}
	}
	m.AddRoot(http.MethodGet, "/livez", quiet(func(c echo.Context) error {
		return web.WriteJSON(c, http.StatusOK, map[string]string{"status": "live"})
	}))
	m.AddRoot(http.MethodGet, "/readyz", quiet(a.readyz))
	if metrics != nil {
		m.AddRoot(http.MethodGet, "/metrics", quiet(echo.WrapHandler(metrics)))
	}
}

func (a *API) readyz(c echo.Context) error {
	out, cause := a.ready.look(a.cfg.Now(), func() []broker.Dependency {
		// The answer is for everybody who asks within readyFor: whoever hangs up must
		// not make it a bad one, and a store that hangs must not hold them all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), readyWait)
		defer cancel()
		return a.b.Ready(ctx)
	})
	web.EventOf(c).Cause = cause
	status := http.StatusOK
	if out.Status != "ready" {
		status = http.StatusServiceUnavailable
		c.Response().Header().Set("Retry-After", "2")
	}
	return web.WriteJSON(c, status, out)
}

func (r *readiness) look(now time.Time, ask func() []broker.Dependency) (readyAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return r.last, r.cause
	}
	out := readyAnswer{Status: "ready", Dependencies: []dependency{}}
	var causes []error
	for _, d := range ask() {
		state, reason := "up", ""
		if d.Err != nil {
			if r, ok := errors.AsType[broker.Reason](d.Err); ok {
				reason = string(r)
			}
			state, out.Status = "down", "not_ready"
			causes = append(causes, fmt.Errorf("%s: %w", d.Name, d.Err))
		}
		if d.Err == nil && d.Warning != "" {
			state = "warning"
		}
		out.Dependencies = append(out.Dependencies, dependency{Name: d.Name, State: state, Warning: d.Warning, Reason: reason})
	}
	r.last, r.cause, r.until = out, errors.Join(causes...), now.Add(readyFor)
	return r.last, r.cause
}
