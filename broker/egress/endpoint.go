package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// endpoint is the egress endpoint of one sandbox while it is served.
type endpoint struct {
	p                    *Proxy
	who                  broker.Caller
	ca                   *CA
	workLimits           *workLimits
	credentialLessLeases credentialLessLeases
	// open database sessions
	sessions sessions
	slots    chan struct{} // one element for each connection; capacity Config.Connections
	busy     chan struct{} // one element for each running request; capacity Config.Requests
	tunnels  chan net.Conn // decrypted connections for the inner server

	tls      *tls.Config // for tunnels
	errorLog *log.Logger // for both servers

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// keep registers a connection so that close closes it. It returns false, and closes c, if close has
// already run.
func (b *endpoint) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close()
		return false
	}
	b.open[c] = true
	return true
}

func (b *endpoint) forget(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// close closes all connections of the endpoint at once, without flushing and without a TLS
// close_notify.
func (b *endpoint) close(l net.Listener) {
	_ = l.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c := range b.open {
		_ = c.Close()
	}
}

// serve runs the two servers of an endpoint. The outer one answers CONNECT, the inner one the
// requests inside tunnels.
func (b *endpoint) serve(ctx context.Context, l net.Listener) error {
	outer := b.server(ctx, http.HandlerFunc(b.connect))
	inner := b.server(ctx, http.HandlerFunc(b.request))
	outer.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(context.WithValue(ctx, connKey{}, c), strictKey{}, c)
	}
	inner.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if s, is := c.(*strictConn); is {
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
	markScheme(inner)
	var wg sync.WaitGroup
	wg.Go(func() { _ = inner.Serve(&tunnels{b: b, ctx: ctx}) })
	err := outer.Serve(&limitedListener{Listener: l, b: b, ctx: ctx})
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

// drain waits for the responses to running requests when ebb stops, for at most closeGrace. The
// contexts of these requests are done, so each is answered at once.
func drain(servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	for _, s := range servers {
		_ = s.Shutdown(ctx)
	}
}

func (b *endpoint) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
		ErrorLog: b.errorLog,
	}
}

// connect answers CONNECT (RFC 9110 section 9.3.6), requests to a base URL, and requests for
// infoPath. Other requests are refused, because they would reach the upstream without encryption.
func (b *endpoint) connect(w http.ResponseWriter, r *http.Request) {
	if err := denied(r); err != nil {
		b.refuseUnread(w, r, err)
		return
	}
	uri := originForm(r)
	asks, goes := r.Method == http.MethodGet && uri == infoPath, strings.HasPrefix(uri, toPath)
	switch {
	case (asks || goes) && (!ownName(r.Host) || fromElsewhere(r.Host, r.Header)):
		b.refuse(w, r, deny(Misdirected, nil))
		return
	case asks:
		b.serveInfo(w, r)
		return
	case goes:
		b.serveBaseURL(w, r, uri)
		return
	}
	if r.Method != http.MethodConnect {
		b.refuse(w, r, deny(NotTunnelled, nil))
		return
	}
	h, err := stricturl.ParseHost(r.RequestURI, 0)
	switch {
	case err != nil:
		b.refuse(w, r, err)
		return
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		b.refuse(w, r, &stricturl.Error{Reason: stricturl.BadHeader, Why: "CONNECT has no body"})
		return
	}
	// A handshake costs ebb more than it costs the sandbox. A tunnel in which a request is sent
	// gives its token back, because requests have limits of their own.
	if !b.workLimits.empty.take(time.Now()) || !b.ca.known(h.Name) && !b.sessions.known(h) && !b.workLimits.names.Allow() {
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
	switch first, said := t.firstByte(ctx); {
	case said && first == 0: // PostgreSQL: the first byte of a length, which is always 0
		b.session(r, t)
		return
	case said && first == identification[0]:
		b.serveSSH(r, t)
		return
	}
	tlsConn := tls.Server(t, b.tls)
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		b.p.cfg.Logger.DebugContext(r.Context(), "TLS handshake in a tunnel failed", "task_id", b.who.TaskID, "host", h.String(), "error", err)
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
		in = &strictConn{Conn: tlsConn}
	}
	select {
	case b.tunnels <- in:
	case <-r.Context().Done():
		_ = t.Close()
	}
}

// firstByte returns the first byte that the client sends in a tunnel; said is false if none arrived
// before the deadline of ctx. The byte tells the protocols apart: TLS begins with the type of a
// record (RFC 8446 section 5.1), which is neither 0 nor a letter.
func (t *tunnel) firstByte(ctx context.Context) (first byte, said bool) {
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

// tunnel is a connection after CONNECT. For a request to a base URL only host is set.
type tunnel struct {
	net.Conn
	host  stricturl.Host
	early []byte // bytes that arrived together with CONNECT
	b     *endpoint
	used  sync.Once // done by the first request that is sent in it
}

type tunnelKey struct{}

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

// tunnels is the listener of the inner server. It accepts the decrypted connections of tunnels.
type tunnels struct {
	b   *endpoint
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

// rejectCrowded answers a connection that has no slot with the reason. A sandbox has one connection
// rejected at a time, so that repeated attempts hold no further descriptors.
func (b *endpoint) rejectCrowded(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	b.p.cfg.Record.UseDenied(context.WithoutCancel(ctx), b.who, "", broker.Exchange{Tool: b.who.Tool, Reason: string(Crowded)})
	if leftOut, now := b.workLimits.logLine(); now {
		b.p.cfg.Logger.InfoContext(ctx, "egress refused", "task_id", b.who.TaskID, "tool", b.who.Tool, "reason", Crowded, "left_out", leftOut, "error", errConnectionLimit)
	}
	writeUnavailable(c, Crowded)
}

// limitedListener accepts at most Config.Connections connections of a sandbox at a time; further
// ones wait. A connection without a slot for its task is rejected.
type limitedListener struct {
	net.Listener
	b   *endpoint
	ctx context.Context
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.b.slots <- struct{}{}:
	case <-l.ctx.Done(): // otherwise Accept would wait until another connection ends
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.b.slots
			return nil, err
		}
		if give := l.b.p.place(l.b.who.Root()); give != nil {
			return &strictConn{Conn: &slot{Conn: c, give: sync.OnceFunc(func() { give(); <-l.b.slots })}}, nil
		}
		l.b.rejectCrowded(l.ctx, c)
	}
}

// config returns the TLS configuration of all tunnels of a sandbox. Session tickets are disabled: a
// resumed session shows no certificate, so a ticket of one tunnel would be valid in a tunnel to
// another host.
func (c *CA) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			t, is := hello.Conn.(*tunnel)
			// Older clients send no server name. Any other name than the tunnel's is for another
			// host.
			if !is || hello.ServerName != "" && hello.ServerName != t.host.Name {
				return nil, deny(Misdirected, nil)
			}
			return c.Leaf(t.host.Name)
		},
	}
}
