package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"ebb/broker/provider"
)

// Bounds of what each side says before SSH begins (RFC 4253 section 4.2): a line of at most 255
// bytes, and of a server other lines before it.
const (
	maxIdentification = 255
	maxBanner         = 8 << 10
	answerTime        = 20 * time.Second // until a server has said its line
)

var (
	identification = []byte("SSH-2.0-")
	errNoSSH       = errors.New("it does not begin as SSH does")
)

// pipe carries an SSH connection to a host that a lease of the caller's is for, byte for byte.
// It is on the record as a request by the newest of those, and lives by all of them: which the box
// logs in with is between it and the host.
func (b *box) pipe(r *http.Request, t *tunnel) {
	defer func() { _ = t.Close() }()
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-r.Context().Done():
		return
	}
	s := &sending{b: b, tunnel: t, host: t.host, x: b.exchange(r)}
	s.x.Host, s.x.Method, s.x.Protocol = t.host.String(), "", provider.SSH
	defer s.connects(r.Context(), t)()
	defer b.p.piped.add(s)() // before it is asked which leases there are: none is ended unseen
	leaseID, until, err := b.reaching(s.ctx, t)
	if err != nil {
		s.unpiped(r, err)
		return
	}
	s.leaseID = leaseID
	s.lives()
	if err := s.carry(t, until); err != nil {
		s.unpiped(r, err)
	}
}

// connects has a connection live by its task from here on; lives follows. A cut closes the tunnel,
// which waits for nobody and says nothing. over follows.
func (s *sending) connects(ctx context.Context, t *tunnel) (over func()) {
	ctx, s.cut = context.WithCancelCause(ctx)
	ctx, done := s.b.p.cuts.begin(ctx, lineage(s.b.who)...)
	s.ctx = ctx
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	return func() {
		stop()
		s.over()
		done()
		s.cut(nil)
	}
}

// reaching finds the lease that a connection leaves by, and when the last of those has had its time
// that are for its host. That costs a query, so that a box has so many for nothing and no more.
func (b *box) reaching(ctx context.Context, t *tunnel) (leaseID string, until time.Time, err error) {
	if b.p.cfg.Hosts == nil {
		return "", until, deny(NoCredential, nil)
	}
	if !b.free.reaches(t.host) {
		return "", until, deny(TooOften, nil)
	}
	leaseID, until, err = b.p.cfg.Hosts.LeaseTo(ctx, b.who, t.host)
	if over := err != nil && reasonOf(err) == NoCredential; err == nil || over {
		b.free.reached(t.host, !over)
	}
	return leaseID, until, err
}

// unpiped says why a connection was not carried, or no further. One that broke, or was cut, has
// no reason.
func (s *sending) unpiped(r *http.Request, err error) {
	if s.allowed && (s.ctx.Err() != nil || !errors.As(err, new(*Denial))) {
		return
	}
	s.x.Reason = string(reasonOf(err))
	if !s.allowed {
		s.x.Cut = s.ctx.Err() != nil
		s.b.deny(r, s.leaseID, s.x)
	}
	if leftOut, now := s.b.free.line(); now {
		s.b.p.cfg.Logger.InfoContext(r.Context(), "egress refused", "task_id", s.b.who.TaskID, "tool", s.b.who.Tool, "reason", s.x.Reason, "protocol", s.x.Protocol, "left_out", leftOut, "error", err)
	}
}

// carry opens the connection and copies both ways until one of them ends, at the latest at until.
// Nothing is dialled before the client has said that it speaks SSH, ebb that it may, and the record so.
func (s *sending) carry(t *tunnel, until time.Time) error {
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
	s.expiry = time.AfterFunc(s.life(), func() { s.cut(errExpiry) })
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
	if err := context.Cause(s.ctx); err != nil { // it was cut while it was dialled
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

// both copies both ways. The end of what the client says is passed on; that of what the server
// says is the end.
func (s *sending) both(t *tunnel, up net.Conn, task *atomic.Int64) error {
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
	_, _ = t.Close(), up.Close() // the other way ends with it, also where the server does not read
	return errors.Join(err, <-out)
}

// counter counts what is read before anybody gets it.
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

// firstLine reads up to the end of the line by which one side says that it speaks SSH, and not a
// byte further. A server may say other lines before.
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

// plain reports whether a line is of printable US-ASCII, of a length that the protocol has.
func plain(line []byte) bool {
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	return len(line) <= maxIdentification && len(text) > len(identification) && !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' })
}
