package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// readyFor is the time for which one result of /readyz is cached. The endpoint
// needs no credentials, so it must not be usable to put load on the stores.
const readyFor = time.Second

// readyWait is the time in which a dependency must answer to count as up.
const readyWait = 3 * time.Second

type readiness struct {
	mu    sync.Mutex
	until time.Time
	last  wire.Ready
	cause error
}

// RegisterProbes adds /livez, /readyz and, if metrics is not nil, /metrics, at
// the root of the host. They are separate from Register so that an operator can
// serve them on another listener.
func (d *discovery) RegisterProbes(m *web.Mux, metrics http.Handler) {
	quiet := func(h echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			web.EventOf(c).Quiet = true
			return h(c)
		}
	}
	m.AddRoot(http.MethodGet, "/livez", quiet(func(c echo.Context) error {
		return web.WriteJSON(c, http.StatusOK, wire.Live{Status: "live"})
	}))
	m.AddRoot(http.MethodGet, "/readyz", quiet(d.readyz))
	if metrics != nil {
		m.AddRoot(http.MethodGet, "/metrics", quiet(echo.WrapHandler(metrics)))
	}
}

func (d *discovery) readyz(c echo.Context) error {
	out, cause := d.ready.look(d.clock(), func() []broker.Dependency {
		// The result is cached for all callers, so it must not fail because one
		// caller disconnects. The timeout keeps a hanging store from blocking
		// all of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), readyWait)
		defer cancel()
		return d.b.Ready(ctx)
	})
	web.EventOf(c).Cause = cause
	status := http.StatusOK
	if out.Status != "ready" {
		status = http.StatusServiceUnavailable
		c.Response().Header().Set("Retry-After", "2")
	}
	return web.WriteJSON(c, status, out)
}

func (r *readiness) look(now time.Time, ask func() []broker.Dependency) (wire.Ready, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return r.last, r.cause
	}
	out := wire.Ready{Status: "ready", Dependencies: []wire.Dependency{}}
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
		out.Dependencies = append(out.Dependencies, wire.Dependency{Name: d.Name, State: state, Warning: d.Warning, Reason: reason})
	}
	r.last, r.cause, r.until = out, errors.Join(causes...), now.Add(readyFor)
	return r.last, r.cause
}
