package api

import (
	"context"
	"net"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// Boxes opens egress endpoints of sandboxes. *egress.Endpoints implements it.
type Boxes interface {
	Open(ctx context.Context, who broker.Principal, taskID string, spec broker.BoxSpec) (broker.Box, error)
	Register(ctx context.Context, who broker.Principal, taskID, id string, namespace uint64) (broker.Box, error)
	Shut(ctx context.Context, who broker.Principal, taskID, id string) (broker.Box, error)
	Enter(ctx context.Context, who broker.Principal, taskID, id string) (enter func(net.Conn), err error)
}

// noBoxes answers for an ebb without an egress proxy. Callers without the right
// to open endpoints get that error first.
type noBoxes struct{ b *core.Broker }

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

func (sa *sandboxAPI) openBox(c echo.Context, who broker.Principal, body wire.BoxSpec) (wire.Box, error) {
	return boxed(c)(sa.boxes.Open(c.Request().Context(), who, c.Param("id"), brokerBoxSpec(body)))
}

func (sa *sandboxAPI) registerBox(c echo.Context, who broker.Principal, body wire.NamespaceBody) (wire.Box, error) {
	return boxed(c)(sa.boxes.Register(c.Request().Context(), who, c.Param("id"), c.Param("box"), body.NetworkNamespace))
}

func (sa *sandboxAPI) closeBox(c echo.Context, who broker.Principal, _ web.None) (wire.Box, error) {
	return boxed(c)(sa.boxes.Shut(c.Request().Context(), who, c.Param("id"), c.Param("box")))
}

// boxed adds the task's id to the log event of the request.
func boxed(c echo.Context) func(broker.Box, error) (wire.Box, error) {
	return func(x broker.Box, err error) (wire.Box, error) {
		web.EventOf(c).TaskID = x.TaskID
		return wireBox(x), err
	}
}
