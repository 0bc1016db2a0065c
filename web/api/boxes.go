package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
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
type noBoxes struct{ b boxBroker }

// boxBroker is the part of the broker that noBoxes calls.
type boxBroker interface {
	MayBox(ctx context.Context, who broker.Principal, taskID string) error
}

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

// switched is the response to a successful upgrade.
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.UpgradeEgress + "\r\n\r\n"

// handTime limits the time for writing that response.
const handTime = 10 * time.Second

// connectBox serves POST /v1/tasks/{id}/boxes/{box}/connect: a runner on
// another machine forwards one connection of its sandbox. The token and DPoP
// proof in the headers are valid for this one connection.
func (sa *sandboxAPI) connectBox(c echo.Context) error {
	who, err := sa.clients.authenticate(c)
	if err != nil {
		return err
	}
	r, id := c.Request(), c.Param("id")
	enter, err := sa.boxes.Enter(r.Context(), who, id, c.Param("box"))
	if err != nil {
		return err
	}
	web.EventOf(c).TaskID = id
	if err := asksEgress(r); err != nil {
		enter(nil)
		return err
	}
	conn, rw, err := http.NewResponseController(c.Response()).Hijack()
	if err != nil {
		enter(nil)
		return broker.E(broker.Unavailable, "The connection cannot be upgraded.", err)
	}
	c.Response().Status, c.Response().Committed = http.StatusSwitchingProtocols, true // for the log; the response is hijacked
	_ = conn.SetDeadline(time.Now().Add(handTime))
	if rw.Reader.Buffered() == 0 { // data before the 101 response violates the protocol
		if _, err = conn.Write([]byte(switched)); err == nil && conn.SetDeadline(time.Time{}) == nil {
			enter(conn)
			return nil
		}
	}
	// Close the TCP connection without a TLS close notification, which could
	// block. Release the slot after the close, so that an open connection is
	// always counted.
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	_ = conn.Close()
	enter(nil)
	return nil
}

// asksEgress checks that a request is a valid upgrade to wire.UpgradeEgress.
func asksEgress(r *http.Request) error {
	one := func(name, value string) bool {
		got := r.Header[name]
		return len(got) == 1 && strings.EqualFold(got[0], value)
	}
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor != 1 || !one("Connection", "Upgrade") || !one("Upgrade", wire.UpgradeEgress):
		return malformed("Send this request by HTTP/1.1 with Connection: Upgrade and Upgrade: " + wire.UpgradeEgress + ". A proxy in between must forward both headers.")
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return malformed("This request must not have a body.")
	case r.URL.RawQuery != "":
		return malformed("This request must not have query parameters.")
	}
	return nil
}

func brokerBoxSpec(s wire.BoxSpec) broker.BoxSpec {
	return broker.BoxSpec{Tool: s.Tool, Identity: broker.BoxIdentity(s.Identity), Forward: s.Forward, ID: s.ID}
}

func wireBox(b broker.Box) wire.Box {
	return wire.Box{
		ID: b.ID, TaskID: b.TaskID, Tool: b.Tool, Socket: b.Socket, CA: b.CA,
		Identity: wire.BoxIdentity(b.Identity), State: wire.BoxState(b.State), ExpiresAt: b.ExpiresAt,
	}
}
