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

// EgressEndpoints opens egress endpoints of sandboxes. *egress.Endpoints implements it.
type EgressEndpoints interface {
	Open(ctx context.Context, who broker.Principal, taskID string, spec broker.EgressEndpointSpec) (broker.EgressEndpoint, error)
	Register(ctx context.Context, who broker.Principal, taskID, id string, namespace uint64) (broker.EgressEndpoint, error)
	Shut(ctx context.Context, who broker.Principal, taskID, id string) (broker.EgressEndpoint, error)
	Enter(ctx context.Context, who broker.Principal, taskID, id string) (enter func(net.Conn), err error)
}

// noEndpoints answers for an ebb without an egress proxy. Callers without the right
// to open endpoints get that error first.
type noEndpoints struct{ b endpointBroker }

// endpointBroker is the part of the broker that noEndpoints calls.
type endpointBroker interface {
	MayOpenEndpoint(ctx context.Context, who broker.Principal, taskID string) error
}

func (n noEndpoints) refuse(ctx context.Context, who broker.Principal, taskID string) (broker.EgressEndpoint, error) {
	if err := n.b.MayOpenEndpoint(ctx, who, taskID); err != nil {
		return broker.EgressEndpoint{}, err
	}
	return broker.EgressEndpoint{}, broker.E(broker.Conflict, "This ebb runs no egress proxy. Its operator sets egress.enabled.", nil)
}

func (n noEndpoints) Open(ctx context.Context, who broker.Principal, taskID string, _ broker.EgressEndpointSpec) (broker.EgressEndpoint, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noEndpoints) Register(ctx context.Context, who broker.Principal, taskID, _ string, _ uint64) (broker.EgressEndpoint, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noEndpoints) Shut(ctx context.Context, who broker.Principal, taskID, _ string) (broker.EgressEndpoint, error) {
	return n.refuse(ctx, who, taskID)
}

func (n noEndpoints) Enter(ctx context.Context, who broker.Principal, taskID, _ string) (func(net.Conn), error) {
	_, err := n.refuse(ctx, who, taskID)
	return nil, err
}

func (sa *sandboxAPI) openEndpoint(c echo.Context, who broker.Principal, body wire.EgressEndpointSpec) (wire.EgressEndpoint, error) {
	return endpointAnswer(c)(sa.endpoints.Open(c.Request().Context(), who, c.Param("id"), brokerEndpointSpec(body)))
}

func (sa *sandboxAPI) registerEndpoint(c echo.Context, who broker.Principal, body wire.NamespaceBody) (wire.EgressEndpoint, error) {
	return endpointAnswer(c)(sa.endpoints.Register(c.Request().Context(), who, c.Param("id"), c.Param("endpoint"), body.NetworkNamespace))
}

func (sa *sandboxAPI) closeEndpoint(c echo.Context, who broker.Principal, _ web.None) (wire.EgressEndpoint, error) {
	return endpointAnswer(c)(sa.endpoints.Shut(c.Request().Context(), who, c.Param("id"), c.Param("endpoint")))
}

// endpointAnswer adds the task's id to the log event of the request.
func endpointAnswer(c echo.Context) func(broker.EgressEndpoint, error) (wire.EgressEndpoint, error) {
	return func(x broker.EgressEndpoint, err error) (wire.EgressEndpoint, error) {
		web.EventOf(c).TaskID = x.TaskID
		return wireEgressEndpoint(x), err
	}
}

// switched is the response to a successful upgrade.
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.UpgradeEgress + "\r\n\r\n"

// handTime limits the time for writing that response.
const handTime = 10 * time.Second

// connectEndpoint serves POST /v1/tasks/{id}/egress-endpoints/{endpoint}/connect: a runner on
// another machine forwards one connection of its sandbox. The token and DPoP
// proof in the headers are valid for this one connection.
func (sa *sandboxAPI) connectEndpoint(c echo.Context) error {
	who, err := sa.clients.authenticate(c)
	if err != nil {
		return err
	}
	r, id := c.Request(), c.Param("id")
	enter, err := sa.endpoints.Enter(r.Context(), who, id, c.Param("endpoint"))
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

func brokerEndpointSpec(s wire.EgressEndpointSpec) broker.EgressEndpointSpec {
	return broker.EgressEndpointSpec{Tool: s.Tool, Identity: broker.EndpointIdentity(s.Identity), Forward: s.Forward, ID: s.ID}
}

func wireEgressEndpoint(b broker.EgressEndpoint) wire.EgressEndpoint {
	return wire.EgressEndpoint{
		ID: b.ID, TaskID: b.TaskID, Tool: b.Tool, Socket: b.Socket, CA: b.CA,
		Identity: wire.EndpointIdentity(b.Identity), State: wire.EndpointState(b.State), ExpiresAt: b.ExpiresAt,
	}
}
