package api

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// UpgradeEgress is the protocol that connectBox goes over to (RFC 9110 section 7.8): what a box says to its
// way out, from the first byte on.
const UpgradeEgress = "ebb-egress"

// switched is the answer after which that begins.
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + UpgradeEgress + "\r\n\r\n"

// handTime bounds how long the answer may take to be written.
const handTime = 10 * time.Second

// connectBox is POST /v1/tasks/{id}/boxes/{box}/connect: the runner of a box on another machine hands
// one connection of it on. The token and the proof in its headers are for this one connection.
func (a *API) connectBox(c echo.Context) error {
	who, err := a.authenticate(c)
	if err != nil {
		return err
	}
	r, id := c.Request(), c.Param("id")
	enter, err := a.cfg.Boxes.Enter(r.Context(), who, id, c.Param("box"))
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
		return broker.E(broker.Unavailable, "The connection cannot be handed on.", err)
	}
	c.Response().Status, c.Response().Committed = http.StatusSwitchingProtocols, true // for the log; nobody writes to it any more
	_ = conn.SetDeadline(time.Now().Add(handTime))
	if rw.Reader.Buffered() == 0 { // who speaks before the answer has not waited to hear that it may
		if _, err = conn.Write([]byte(switched)); err == nil && conn.SetDeadline(time.Time{}) == nil {
			enter(conn)
			return nil
		}
	}
	// Nobody is owed a farewell, which TLS would wait with; and what is closed only after its place is
	// given back is counted nowhere meanwhile.
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	_ = conn.Close()
	enter(nil)
	return nil
}

// asksEgress says what is wrong with a request to go over to UpgradeEgress.
func asksEgress(r *http.Request) error {
	one := func(name, value string) bool {
		got := r.Header[name]
		return len(got) == 1 && strings.EqualFold(got[0], value)
	}
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor != 1 || !one("Connection", "Upgrade") || !one("Upgrade", UpgradeEgress):
		return malformed("Send this by HTTP/1.1 with Connection: Upgrade and Upgrade: " + UpgradeEgress + ". A proxy in between has to pass both on.")
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return malformed("This request has no body.")
	case r.URL.RawQuery != "":
		return malformed("This request has no query parameters.")
	}
	return nil
}
