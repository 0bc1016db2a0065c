package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"ebb/broker/exact"
)

// Bounds of a connection from a box.
const (
	helloTime  = 5 * time.Second  // until a tunnel is TLS
	headerTime = 10 * time.Second // until a request's headers are there
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10
	maxStreams = 64
)

// serve runs the two servers of a box: the outer one takes CONNECT, the inner one the
// requests inside of tunnels.
func (b *box) serve(ctx context.Context, l net.Listener) error {
	outer := b.server(ctx, http.HandlerFunc(b.connect))
	inner := b.server(ctx, http.HandlerFunc(b.request))
	outer.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(context.WithValue(ctx, connKey{}, c), strictKey{}, c)
	}
	inner.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if s, is := c.(*strict); is {
			c, ctx = s.Conn, context.WithValue(ctx, strictKey{}, s)
		}
		if t, is := c.(*tls.Conn); is {
			if tun, is := t.NetConn().(*tunnel); is {
				return context.WithValue(context.WithValue(ctx, connKey{}, tun.Conn), tunnelKey{}, tun)
			}
		}
		return ctx
	}
	inner.Protocols = new(http.Protocols)
	inner.Protocols.SetHTTP1(true)
	inner.Protocols.SetHTTP2(true)
	inner.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 64 << 10}
	tellScheme(inner)
	var wg sync.WaitGroup
	wg.Go(func() { _ = inner.Serve(&tunnels{b: b, ctx: ctx}) })
	err := outer.Serve(&counted{Listener: l, b: b, ctx: ctx})
	if stopping(ctx) {
		drain(inner, outer)
	}
	b.close(l)
	_ = inner.Close()
	_ = outer.Close()
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// stopping reports whether ctx has ended because ebb stops.
func stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopping) }

// drain waits for the answers to requests that are under way when ebb stops, no longer than farewell. Their
// contexts are over, so each is answered at once.
func drain(servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, s := range servers {
		_ = s.Shutdown(ctx)
	}
}

func (b *box) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
		ErrorLog: b.errorLog,
	}
}

// connect answers CONNECT (RFC 9110 section 9.3.6) and requests to a base URL, and says what
// the box is. Nothing else goes out: it would be in the clear behind ebb.
func (b *box) connect(w http.ResponseWriter, r *http.Request) {
	if err := denied(r); err != nil {
		b.unread(w, r, err)
		return
	}
	uri := originForm(r)
	asks, goes := r.Method == http.MethodGet && uri == boxPath, strings.HasPrefix(uri, toPath)
	switch {
	case (asks || goes) && (!ownName(r.Host) || fromElsewhere(r.Host, r.Header)):
		b.refuse(w, r, deny(Misdirected, nil))
		return
	case asks:
		b.tell(w, r)
		return
	case goes:
		b.to(w, r, uri)
		return
	}
	if r.Method != http.MethodConnect {
		b.refuse(w, r, deny(NotTunnelled, nil))
		return
	}
	h, err := exact.ParseHost(r.RequestURI, 0)
	switch {
	case err != nil:
		b.refuse(w, r, err)
		return
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		b.refuse(w, r, deny(exact.BadHeader, errors.New("CONNECT with a body")))
		return
	}
	// A handshake costs ebb more than the box. Those of which a request leaves are bounded as
	// requests are.
	if !b.free.empty.take(time.Now()) || !b.ca.known(h.Name) && !b.sessions.known(h) && !b.free.names.Allow() {
		b.refuse(w, r, deny(TooOften, nil))
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		b.refuse(w, r, deny(Unreachable, err))
		return
	}
	if !b.keep(conn) {
		return
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err == nil {
		_, err = conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
	}
	if err != nil {
		b.forget(conn)
		_ = conn.Close()
		return
	}
	t := &tunnel{Conn: conn, host: h, early: append([]byte(nil), early...), b: b}
	ctx, cancel := context.WithTimeout(r.Context(), helloTime)
	defer cancel()
	switch first, said := t.begins(ctx); {
	case said && first == 0: // PostgreSQL: the first byte of a length that is never long
		b.session(r, t)
		return
	case said && first == identification[0]:
		b.pipe(r, t)
		return
	}
	tlsConn := tls.Server(t, b.tls)
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		b.p.cfg.Logger.DebugContext(r.Context(), "a tunnel is no TLS for its host", "task_id", b.who.TaskID, "host", h.String(), "error", err)
		_ = t.Close()
		x := b.exchange(r)
		if x.Reason = string(NotTLS); errors.As(err, new(*Denial)) {
			x.Reason = string(Misdirected)
		}
		b.deny(r, "", x)
		return
	}
	var in net.Conn = tlsConn
	if tlsConn.ConnectionState().NegotiatedProtocol != "h2" {
		in = &strict{Conn: tlsConn}
	}
	select {
	case b.tunnels <- in:
	case <-r.Context().Done():
		_ = t.Close()
	}
}

// begins is the first byte that a tunnel's client sends; said is false when none came in time.
// What it is tells protocols apart: TLS begins with the type of its record (RFC 8446 section
// 5.1), which is neither 0 nor a letter.
func (t *tunnel) begins(ctx context.Context) (first byte, said bool) {
	if len(t.early) == 0 {
		one := make([]byte, 1)
		end, _ := ctx.Deadline()
		_ = t.SetReadDeadline(end)
		n, _ := t.Conn.Read(one)
		_ = t.SetReadDeadline(time.Time{})
		t.early = one[:n]
	}
	if len(t.early) == 0 {
		return 0, false
	}
	return t.early[0], true
}

// tunnel is a connection behind CONNECT; of a request to a base URL, the host alone.
type tunnel struct {
	net.Conn
	host  exact.Host
	early []byte // read with the request already
	b     *box
	used  sync.Once // by the first request in it that left
}

type tunnelKey struct{}

// connKey is the connection that a request came by, without what is in its tunnel.
type connKey struct{}

// Read implements net.Conn.
func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(p, t.early)
		t.early = t.early[n:]
		return n, nil
	}
	return t.Conn.Read(p)
}

// Close implements net.Conn.
func (t *tunnel) Close() error {
	t.b.forget(t.Conn)
	return t.Conn.Close()
}

// tunnels is the listener of the inner server.
type tunnels struct {
	b   *box
	ctx context.Context
}

// Accept implements net.Listener.
func (l *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-l.b.tunnels:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *tunnels) Close() error { return nil }

// Addr implements net.Listener.
func (l *tunnels) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "tunnels"} }
