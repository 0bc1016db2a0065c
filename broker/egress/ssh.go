package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

// Limits of what each side sends before SSH begins (RFC 4253 section 4.2): a line of at most 255
// bytes, and from a server other lines before it.
const (
	maxIdentification = 255
	maxBanner         = 8 << 10
	answerTime        = 20 * time.Second // for the identification line of a server
)

var (
	identification = []byte("SSH-2.0-")
	errNoSSH       = errors.New("the connection does not begin with an SSH identification line (RFC 4253 section 4.2)")
)

// serveSSH relays an SSH connection byte for byte to a host that a lease of the caller covers. The
// audit log names the newest such lease. ebb does not see which of them the sandbox logs in with,
// so that the connection depends on all of them.
func (b *endpoint) serveSSH(r *http.Request, t *tunnel) {
	defer func() { _ = t.Close() }()
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-r.Context().Done():
		return
	}
	s := &outbound{b: b, tunnel: t, host: t.host, x: b.exchange(r)}
	s.x.Host, s.x.Method, s.x.Protocol = t.host.String(), "", provider.SSH
	defer s.connects(r.Context(), t)()
	defer b.p.sshConnections.add(s)() // before the leases are looked up, so that no revocation is missed
	leaseID, until, err := b.leaseToHost(s.ctx, t)
	if err != nil {
		s.refuseSSH(r, err)
		return
	}
	s.dependOn(leaseID)
	if err := s.relay(t, until); err != nil {
		s.refuseSSH(r, err)
	}
}

// connects makes a connection depend on its task from here on. A disconnection closes the tunnel at
// once, without a message. The caller must call over.
func (s *outbound) connects(ctx context.Context, t *tunnel) (over func()) {
	ctx, s.disconnect = context.WithCancelCause(ctx)
	ctx, done := s.b.p.active.begin(ctx, lineage(s.b.who)...)
	s.ctx = ctx
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	return func() {
		stop()
		s.release()
		done()
		s.disconnect(nil)
	}
}

// leaseToHost returns the newest lease for the host of a tunnel, and when the last of its leases
// expires. This costs a query, so that attempts without a lease are rate-limited.
func (b *endpoint) leaseToHost(ctx context.Context, t *tunnel) (leaseID string, until time.Time, err error) {
	if b.p.cfg.Hosts == nil {
		return "", until, deny(NoCredential, nil)
	}
	if !b.workLimits.allowHost(t.host) {
		return "", until, deny(TooOften, nil)
	}
	leaseID, until, err = b.p.cfg.Hosts.LeaseTo(ctx, b.who, t.host)
	if over := err != nil && reasonOf(err) == NoCredential; err == nil || over {
		b.workLimits.noteHost(t.host, !over)
	}
	return leaseID, until, err
}

// refuseSSH records why a connection was not relayed, or not further. A connection that broke or
// was disconnected has no reason.
func (s *outbound) refuseSSH(r *http.Request, err error) {
	if s.allowed && (s.ctx.Err() != nil || !errors.As(err, new(*Denial))) {
		return
	}
	s.x.Reason = string(reasonOf(err))
	if !s.allowed {
		s.x.Cut = s.ctx.Err() != nil
		s.b.deny(r, s.leaseID, s.x)
	}
	if leftOut, now := s.b.workLimits.logLine(); now {
		s.b.p.cfg.Logger.InfoContext(r.Context(), "egress refused", "task_id", s.b.who.TaskID, "tool", s.b.who.Tool, "reason", s.x.Reason, "protocol", s.x.Protocol, "left_out", leftOut, "error", err)
	}
}

// relay opens the connection and copies in both directions until one ends, at the latest at until.
// It dials only after the client has sent its SSH identification, the broker has allowed the
// connection, and the audit log has its entry.
func (s *outbound) relay(t *tunnel, until time.Time) error {
	hello, err := firstLine(t, maxIdentification, helloTime, false)
	if err != nil {
		return err
	}
	p := s.b.p
	use, err := p.cfg.Hosts.Reach(s.ctx, s.b.who, s.leaseID, s.host)
	if err != nil {
		return err
	}
	s.ends = until
	s.expiry = time.AfterFunc(s.remaining(), func() { s.disconnect(errExpiry) })
	task := p.sent.get(s.b.who.Root())
	if task.Load() >= p.cfg.TaskBytes {
		return deny(TooMuch, nil)
	}
	if err := s.allow(use); err != nil {
		return err
	}
	s.b.sessions.met(s.host)
	up, err := p.dial(s.b.who, func() (net.Conn, error) { return p.cfg.Dialer.Dial(s.ctx, s.host) })
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }()
	defer context.AfterFunc(s.ctx, func() { _ = up.Close() })()
	if err := context.Cause(s.ctx); err != nil { // disconnected while it was dialled
		return err
	}
	s.sent.Add(int64(len(hello)))
	task.Add(int64(len(hello)))
	if _, err := up.Write(hello); err != nil {
		return err
	}
	banner, err := firstLine(up, maxBanner, answerTime, true)
	if err != nil {
		return err
	}
	s.received.Add(int64(len(banner)))
	if _, err := t.Write(banner); err != nil {
		return err
	}
	return s.both(t, up, task)
}

// both copies in both directions. The end of the client's data is passed on; the end of the
// server's data ends the connection.
func (s *outbound) both(t *tunnel, up net.Conn, task *atomic.Int64) error {
	cfg := s.b.p.cfg
	out := make(chan error, 1)
	go func() {
		_, err := io.Copy(up, &counter{r: t, count: func(n int64) error {
			if s.sent.Add(n) > cfg.RequestBytes || task.Add(n) > cfg.TaskBytes {
				return deny(TooMuch, nil)
			}
			return nil
		}})
		if half, can := up.(interface{ CloseWrite() error }); can && err == nil {
			_ = half.CloseWrite()
		} else {
			_ = up.Close()
		}
		out <- err
	}()
	_, err := io.Copy(t, &counter{r: up, count: func(n int64) error { s.received.Add(n); return nil }})
	_, _ = t.Close(), up.Close() // ends the other direction too, even if the server does not read
	return errors.Join(err, <-out)
}

// counter calls count for all data before it returns the data.
type counter struct {
	r     io.Reader
	count func(int64) error
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		if over := c.count(int64(n)); over != nil {
			return 0, over
		}
	}
	return n, err
}

// firstLine reads up to the end of the SSH identification line, and not a byte further. A server
// may send other lines before it.
func firstLine(c net.Conn, most int, within time.Duration, server bool) ([]byte, error) {
	_ = c.SetReadDeadline(time.Now().Add(within))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	var all, line []byte
	for one := make([]byte, 1); len(all) < most; {
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, deny(NotSSH, err)
		}
		all, line = append(all, one[0]), append(line, one[0])
		if !server && !bytes.HasPrefix(identification, line[:min(len(line), len(identification))]) {
			return nil, deny(NotSSH, errNoSSH)
		}
		if one[0] != '\n' {
			continue
		}
		switch is := bytes.HasPrefix(line, identification); {
		case is && plain(line):
			return all, nil
		case is || !server:
			return nil, deny(NotSSH, errNoSSH)
		}
		line = line[:0]
	}
	return nil, deny(NotSSH, errNoSSH)
}

// plain reports whether a line is printable US-ASCII and as long as the protocol allows.
func plain(line []byte) bool {
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	return len(line) <= maxIdentification && len(text) > len(identification) && !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' })
}

// reachTimeout is how long an SSH connection stays open while it is unknown whether a revoked lease
// may have opened it.
const reachTimeout = 500 * time.Millisecond

var errMaybeRevoked = errors.New("egress: closed: a revoked credential may have opened this SSH connection; connect again with a valid one")

// sshConnections are the open SSH connections by task. Each may have been opened with any
// certificate of the sandbox for its host, including one that was issued while the connection was
// being opened.
type sshConnections struct {
	mu sync.Mutex
	of map[string]map[*outbound]struct{}
}

// add makes MayHaveOpened check a connection until done is called.
func (o *sshConnections) add(s *outbound) (done func()) {
	task := s.b.who.TaskID
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]map[*outbound]struct{}{}
	}
	if o.of[task] == nil {
		o.of[task] = map[*outbound]struct{}{}
	}
	o.of[task][s] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if delete(o.of[task], s); len(o.of[task]) == 0 {
			delete(o.of, task)
		}
	}
}

// connections returns the SSH connections of a task.
func (o *sshConnections) connections(task string) (out []*outbound) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.of[task] {
		out = append(out, s)
	}
	return out
}

// MayHaveOpened disconnects those SSH connections of a task that a revoked lease may have opened.
// If they cannot be determined within reachTimeout, it disconnects all. It does not wait for that.
func (p *Proxy) MayHaveOpened(taskID, leaseID string) {
	all := p.sshConnections.connections(taskID)
	if len(all) == 0 {
		return
	}
	go func() {
		ctx, done := context.WithTimeout(context.Background(), reachTimeout)
		defer done()
		in, err := p.cfg.Hosts.MayHaveReached(ctx, leaseID)
		for _, s := range all {
			if err != nil || in(s.b.who, s.host) {
				s.disconnect(errMaybeRevoked)
			}
		}
	}()
}
