package api

import (
	"context"
	"net"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// Boxes opens ways out of sandboxes; *egress.Boxes does.
type Boxes interface {
	Open(ctx context.Context, who broker.Principal, taskID string, spec broker.BoxSpec) (broker.Box, error)
	Register(ctx context.Context, who broker.Principal, taskID, id string, namespace uint64) (broker.Box, error)
	Shut(ctx context.Context, who broker.Principal, taskID, id string) (broker.Box, error)
	Enter(ctx context.Context, who broker.Principal, taskID, id string) (enter func(net.Conn), err error)
}

type namespaceBody struct {
	NetworkNamespace uint64 `json:"network_namespace"`
}

// noBoxes answers for an ebb without an egress proxy; who may not ask is told so first.
type noBoxes struct{ b *broker.Broker }

func (n noBoxes) refuse(ctx context.Context, who broker.Principal, taskID string) (broker.Box, error) {
	if err := n.b.MayBox(ctx, who, taskID); err != nil {
		return broker.Box{}, err
	}
	return broker.Box{}, broker.E(broker.Conflict, "This ebb runs no egress proxy. Its operator sets egress.enabled.", nil)
}

func (n noBoxes) Open(ctx context.Context, who broker.Principal, taskID string, _ broker.BoxSpec) (broker.Box, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noBoxes) Register(ctx context.Context, who broker.Principal, taskID, _ string, _ uint64) (broker.Box, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noBoxes) Shut(ctx context.Context, who broker.Principal, taskID, _ string) (broker.Box, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noBoxes) Enter(ctx context.Context, who broker.Principal, taskID, _ string) (func(net.Conn), error) {
	_, err := n.refuse(ctx, who, taskID)
	return nil, err
}

func (a *API) openBox(c echo.Context, who broker.Principal, body broker.BoxSpec) (broker.Box, error) {
	return boxed(c)(a.cfg.Boxes.Open(c.Request().Context(), who, c.Param("id"), body))
}

func (a *API) registerBox(c echo.Context, who broker.Principal, body namespaceBody) (broker.Box, error) {
	return boxed(c)(a.cfg.Boxes.Register(c.Request().Context(), who, c.Param("id"), c.Param("box"), body.NetworkNamespace))
}

func (a *API) closeBox(c echo.Context, who broker.Principal, _ web.None) (broker.Box, error) {
	return boxed(c)(a.cfg.Boxes.Shut(c.Request().Context(), who, c.Param("id"), c.Param("box")))
}

// boxed puts the task's id on the request's log line.
func boxed(c echo.Context) func(broker.Box, error) (broker.Box, error) {
	return func(x broker.Box, err error) (broker.Box, error) {
		web.EventOf(c).TaskID = x.TaskID
		return x, err
	}
}
