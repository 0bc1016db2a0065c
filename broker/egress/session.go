package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/egress/pgwire"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

const (
	loginTime  = 10 * time.Second // until a box has said what session it wants, and its password
	cancelTime = 5 * time.Second
	sayTime    = 2 * time.Second // for a box to hear why not
)

// session is one of PostgreSQL's in a tunnel: the box logs in here with a placeholder, and what
// it says afterwards goes on to a session that is opened with the credential.
type session struct {
	*sending
	srv   *pgwire.Server
	hello pgwire.Hello
	in    net.Conn
	up    net.Conn // as it was dialled; nil = it was not
}

// session serves a tunnel in which PostgreSQL is spoken, to its end.
func (b *box) session(r *http.Request, t *tunnel) {
	defer func() { _ = t.Close() }()
	_ = t.SetDeadline(time.Now().Add(loginTime))
	s := &session{srv: pgwire.NewServer(t), in: t, sending: &sending{b: b, tunnel: t, host: t.host, x: b.exchange(r)}}
	s.x.Host, s.x.Method, s.x.Protocol = t.host.String(), "", provider.PostgreSQL
	leaseID, do, err := s.ask()
	switch {
	case errors.Is(err, io.EOF): // it has changed its mind: without TLS, or without a password
		return
	case err != nil:
		b.deny(r, "", s.refuse(err))
		return
	}
	defer s.connects(r.Context(), t)()
	s.leaseID = leaseID
	s.lives()
	if err := do(); err != nil {
		s.x = s.refuse(err)
		if s.x.Cut = s.ctx.Err() != nil; !s.allowed {
			b.deny(r, leaseID, s.x)
		}
	}
}

// ask reads what the box wants, by which lease, and what does it.
func (s *session) ask() (leaseID string, do func() error, err error) {
	if s.hello, err = s.srv.Hello(); err != nil {
		return "", nil, unsaid(err)
	}
	if s.hello.Cancel != nil {
		return s.cancels(*s.hello.Cancel)
	}
	password, err := s.srv.Password()
	if err != nil {
		return "", nil, unsaid(err)
	}
	leaseID, is := strings.CutPrefix(password, Prefix)
	if !is {
		return "", nil, deny(NoPlaceholder, nil)
	}
	return leaseID, s.run, nil
}

// unsaid is an error of reading what a box says: of its own, or that nothing came in time.
func unsaid(err error) error {
	if errors.Is(err, io.EOF) || errors.As(err, new(*pgwire.Refusal)) {
		return err
	}
	return deny(BadStartup, err)
}

// run opens the session and has both sides speak until one of them is done.
func (s *session) run() error {
	up, err := s.open()
	if err != nil {
		return err
	}
	// What was dialled is closed, and not what is encrypted on it, which says farewell first.
	defer func() { _ = s.up.Close() }()
	defer context.AfterFunc(s.ctx, func() { _ = s.up.Close() })()
	key, forget := s.b.sessions.keep(s.leaseID, s.x.Database, s.host, up)
	defer forget()
	if err := s.in.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := s.srv.Ready(up.Parameters, key); err != nil {
		return nil //nolint:nilerr // the box is gone, and nobody is to be told
	}
	return s.carry(up.Conn)
}

// open asks for the credential when everything else is known, puts it on the record, and only
// then connects. If its lease ends from here on, the context of the session does, too.
func (s *session) open() (up provider.Session, err error) {
	use, err := s.use()
	if err != nil {
		return up, err
	}
	if use.Connector == nil {
		return up, deny(NotAllowed, errors.New("the credential opens no session"))
	}
	at, is := use.Connector.Endpoint(use.Target.Scopes)
	switch {
	case !is || at.Protocol != provider.PostgreSQL || at.Host != s.host:
		return up, deny(NotAllowed, nil)
	case at.Database != s.hello.Database:
		return up, deny(OtherDatabase, nil)
	}
	s.x.Database = at.Database
	if err := s.allow(use); err != nil {
		return up, err
	}
	up, err = use.Connector.Connect(s.ctx, use.Target, provider.Opening{Dial: s.dial, Roots: s.b.p.cfg.Roots, Parameters: s.hello.Parameters})
	busy := (*provider.BusyError)(nil)
	switch {
	case err == nil && s.ctx.Err() == nil:
		return up, nil
	case err == nil:
		_ = s.up.Close()
		return up, context.Cause(s.ctx)
	case errors.As(err, &busy):
		return up, deny(Busy, unquoted(err))
	case errors.Is(err, provider.ErrElsewhere):
		return up, deny(NotAllowed, err)
	case errors.Is(err, provider.ErrRefused):
		return up, deny(NoCredential, unquoted(err))
	}
	return up, unquoted(err)
}

// dial connects to the host of the tunnel, wherever its name leads now, or to the address that
// it led to.
func (s *session) dial(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	p := s.b.p
	if at.IsValid() {
		return p.dial(s.b.who, func() (net.Conn, error) { return p.cfg.Dialer.dialAt(ctx, s.host, at.Addr()) })
	}
	c, err := p.dial(s.b.who, func() (net.Conn, error) { return p.cfg.Dialer.Dial(ctx, s.host) })
	s.up = c
	return c, err
}

// carry takes what both say to the other, until one of them is done.
func (s *session) carry(up net.Conn) error {
	task, most := s.b.p.sent.get(s.b.who.Root()), s.b.p.cfg.TaskBytes
	var much atomic.Bool
	var wg sync.WaitGroup
	one := func(to io.Writer, from io.Reader, count func(int64) bool) {
		wg.Go(func() {
			_, _ = io.Copy(&counting{to, count}, from)
			_, _ = s.in.Close(), s.up.Close()
		})
	}
	one(up, s.srv.Rest(), func(n int64) bool {
		s.sent.Add(n)
		if task.Add(n) > most {
			much.Store(true)
		}
		return !much.Load()
	})
	one(s.in, up, func(n int64) bool { s.received.Add(n); return true })
	wg.Wait()
	if much.Load() {
		return deny(TooMuch, nil)
	}
	return nil
}

// counting counts before it writes, and does not write what may not be.
type counting struct {
	to    io.Writer
	count func(int64) bool
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	if !c.count(int64(len(p))) {
		return 0, io.ErrShortWrite
	}
	return c.to.Write(p)
}

// refuse tells the box why there is no session, unless it was cut, and returns what the record
// says of it.
func (s *session) refuse(err error) broker.Exchange {
	x, told := s.x, refusalOf(err)
	x.Reason = told.Detail
	if leftOut, now := s.b.free.line(); now {
		s.b.p.cfg.Logger.Info("egress refused", "task_id", s.b.who.TaskID, "tool", s.b.who.Tool, "reason", x.Reason, "protocol", x.Protocol, "left_out", leftOut, "error", err)
	}
	if s.ctx == nil || s.ctx.Err() == nil {
		_ = s.in.SetDeadline(time.Now().Add(sayTime))
		_ = s.srv.Refuse(told)
	}
	return x
}

// OtherDatabase and those beside it are reasons of sessions.
const (
	OtherDatabase exact.Reason = "other_database"    // the credential is for another one
	BadStartup    exact.Reason = "bad_startup"       // what begins the session is not as it has to be
	Busy          exact.Reason = "too_many_sessions" // its database takes no more of them
)

var refusals = map[exact.Reason]pgwire.Refusal{
	NoPlaceholder: {Code: pgwire.BadPassword, Message: "The password is no placeholder of ebb's. Ask ebb for a credential for this database: it stays in ebb, and its placeholder is the password here."},
	NoCredential:  {Code: pgwire.BadPassword, Message: "There is no such credential here, or it is over. Ask for one."},
	NotAllowed:    {Code: pgwire.NotAuthorized, Message: "The credential is not for the database at this host and port."},
	OtherDatabase: {Code: pgwire.NoDatabase, Message: "The credential is for another database. Name the one of its scope (PGDATABASE), or ask for a credential for this one."},
	BadStartup:    {Code: pgwire.ProtocolViolation, Message: "What begins the session has not come in time."},
	Busy:          {Code: pgwire.TooManySessions, Message: "The credential has as many sessions as it may have, or the database takes no more. Close one, then try again."},
	Crowded:       {Code: pgwire.TooManySessions, Message: "This task has as many connections as it may have. Close one, then try again."},
	TooOften:      {Code: pgwire.TooMuch, Message: "This task opens too many sessions. Wait, then try again."},
	TooMuch:       {Code: pgwire.TooMuch, Message: "This task has sent as much as it may send."},
	NoRecord:      {Code: pgwire.NotNow, Message: "The session cannot be put on the record. Try again later."},
	Doubt:         {Code: pgwire.NotNow, Message: "Nobody can say now whether this session may be opened. Try again later."},
}

// refusalOf is what a box is told: the reason is the word that requests are refused with.
func refusalOf(err error) *pgwire.Refusal {
	if r := (*pgwire.Refusal)(nil); errors.As(err, &r) {
		return &pgwire.Refusal{Code: r.Code, Message: r.Message, Detail: string(BadStartup)}
	}
	reason := reasonOf(err)
	r, known := refusals[reason]
	if !known {
		r = pgwire.Refusal{Code: pgwire.CannotConnect, Message: "The database cannot be reached from ebb. Its operator's log says why."}
	}
	r.Detail = string(reason)
	return &r
}
