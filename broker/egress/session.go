package egress

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/broker/egress/pgwire"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

const (
	loginTime   = 10 * time.Second // to receive the startup message and the password
	cancelTime  = 5 * time.Second
	refusalTime = 2 * time.Second // to send a refusal
)

// session is a PostgreSQL session in a tunnel. The sandbox logs in to ebb with a placeholder. All
// further data is relayed to a session that ebb opens with the credential.
type session struct {
	*outbound
	srv      *pgwire.Server
	hello    pgwire.Hello
	in       net.Conn
	up       net.Conn // the dialled connection; nil = not dialled
	approved string   // see statements
}

// session serves a PostgreSQL tunnel to its end.
func (b *endpoint) session(r *http.Request, t *tunnel) {
	defer func() { _ = t.Close() }()
	_ = t.SetDeadline(time.Now().Add(loginTime))
	s := &session{srv: pgwire.NewServer(t), in: t, outbound: &outbound{b: b, tunnel: t, host: t.host, x: b.exchange(r)}}
	s.x.Host, s.x.Method, s.x.Protocol = t.host.String(), "", provider.PostgreSQL
	leaseID, do, err := s.readStartup()
	switch {
	case errors.Is(err, io.EOF): // the client requires TLS, or has no password
		return
	case err != nil:
		b.deny(r, "", s.refuse(r.Context(), err))
		return
	}
	defer s.connects(r.Context(), t)()
	s.dependOn(leaseID)
	if err := do(); err != nil {
		s.x = s.refuse(r.Context(), err)
		if s.x.Cut = s.ctx.Err() != nil; !s.allowed {
			b.deny(r, leaseID, s.x)
		}
	}
}

// readStartup reads the startup message and the password. It returns the lease named by the
// placeholder, and the function that then serves the session or the cancel request.
func (s *session) readStartup() (leaseID string, do func() error, err error) {
	if s.hello, err = s.srv.Hello(); err != nil {
		return "", nil, startupError(err)
	}
	if s.hello.Cancel != nil {
		return s.cancelRequest(*s.hello.Cancel)
	}
	password, err := s.srv.Password()
	if err != nil {
		return "", nil, startupError(err)
	}
	leaseID, is := strings.CutPrefix(password, Prefix)
	if !is {
		return "", nil, deny(NoPlaceholder, nil)
	}
	return leaseID, s.run, nil
}

// startupError returns the error for a failed startup: EOF and refusals unchanged, all others, such
// as timeouts, as BadStartup.
func startupError(err error) error {
	if errors.Is(err, io.EOF) || errors.As(err, new(*pgwire.Refusal)) {
		return err
	}
	return deny(BadStartup, err)
}

// run opens the session and relays until one side ends.
func (s *session) run() error {
	up, err := s.open()
	if err != nil {
		return err
	}
	// The dialled connection is closed, not TLS on top of it, which would first send a
	// close_notify.
	defer func() { _ = s.up.Close() }()
	defer context.AfterFunc(s.ctx, func() { _ = s.up.Close() })()
	key, forget := s.b.sessions.keep(s.leaseID, s.x.Database, s.host, up)
	defer forget()
	if err := s.in.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := s.srv.Ready(up.Parameters, key); err != nil {
		return nil //nolint:nilerr // the client is gone, so that no refusal can be sent
	}
	return s.relay(up)
}

// open fetches the credential after all other checks, writes the audit log entry, and only then
// connects. From then on the context of the session ends with the lease.
func (s *session) open() (up provider.Session, err error) {
	use, err := s.use()
	if err != nil {
		return up, err
	}
	if use.Connector == nil {
		return up, deny(NotAllowed, errors.New("the credential cannot open database sessions"))
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
	if use.Lease.RequestID != "" {
		s.approved = use.Lease.Content
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

// dial connects to the host of the tunnel: at an address that it had before, or, if at is not
// valid, at the address that it resolves to now.
func (s *session) dial(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	p := s.b.p
	if at.IsValid() {
		return p.dial(s.b.who, func() (net.Conn, error) { return p.cfg.Dialer.dialAt(ctx, s.host, at.Addr()) })
	}
	c, err := p.dial(s.b.who, func() (net.Conn, error) { return p.cfg.Dialer.Dial(ctx, s.host) })
	s.up = c
	return c, err
}

// relay copies in both directions until one side ends.
func (s *session) relay(up provider.Session) error {
	task, most := s.b.p.sent.get(s.b.who.Root()), s.b.p.cfg.TaskBytes
	var much atomic.Bool
	var wg sync.WaitGroup
	var toServer, toClient io.Writer = up.Conn, s.in
	if up.Judge != nil {
		set := pgsql.Settings{StandardStrings: up.Parameters["standard_conforming_strings"] == "on", UTF8: up.Parameters["client_encoding"] == "UTF8"}
		if up.Judge(content.Facts{Operations: []content.Operation{{Action: pgsql.Define, Object: "?"}}}) == nil {
			set = pgsql.Settings{} // a default or a view that the lease defines can change them in any statement
		}
		texts := statements{
			ctx: s.ctx, leases: s.b.p.cfg.Leases, record: s.b.p.cfg.Record, who: s.b.who, leaseID: s.leaseID, approved: s.approved, judge: up.Judge,
			x: broker.Exchange{Database: s.x.Database, Host: s.x.Host, Protocol: s.x.Protocol, Tool: s.x.Tool},
		}
		guard := pgsql.NewGuard(set, texts.decide)
		toServer, toClient = guard.Client(toServer), guard.Server(toClient)
	}
	one := func(to io.Writer, from io.Reader, count func(int64) bool) {
		wg.Go(func() {
			_, _ = io.Copy(&counting{to, count}, from)
			_, _ = s.in.Close(), s.up.Close()
		})
	}
	one(toServer, s.srv.Rest(), func(n int64) bool {
		s.sent.Add(n)
		if task.Add(n) > most {
			much.Store(true)
		}
		return !much.Load()
	})
	one(toClient, up.Conn, func(n int64) bool { s.received.Add(n); return true })
	wg.Wait()
	if much.Load() {
		return deny(TooMuch, nil)
	}
	return nil
}

// counting calls count before each write, and does not write if that returns false.
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

// refuse sends the reason to the sandbox, unless the session was disconnected, and returns the
// audit log entry.
func (s *session) refuse(ctx context.Context, err error) broker.Exchange {
	x, told := s.x, refusalOf(err)
	x.Reason = told.Detail
	if leftOut, now := s.b.workLimits.logLine(); now {
		s.b.p.cfg.Logger.Info("egress refused", "task_id", s.b.who.TaskID, "tool", s.b.who.Tool, "reason", x.Reason, "protocol", x.Protocol, "left_out", leftOut, "error", err)
	}
	if s.ctx == nil || s.ctx.Err() == nil {
		told.Hint = s.hint(ctx, told.Code)
		_ = s.in.SetDeadline(time.Now().Add(refusalTime))
		_ = s.srv.Refuse(told)
	}
	return x
}

// hint returns the scope for the session and how to ask for it, if another credential is needed.
func (s *session) hint(ctx context.Context, code string) string {
	if !slices.Contains([]string{pgwire.BadPassword, pgwire.NotAuthorized, pgwire.NoDatabase}, code) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, neededTime)
	defer cancel()
	needed, err := s.b.p.cfg.Leases.NeededAt(ctx, s.b.who, provider.Endpoint{Protocol: provider.PostgreSQL, Host: s.host, Database: s.hello.Database})
	if err != nil {
		return askFor(anyScope)
	}
	return scopeAdvice(needed)
}

// Reasons for which sessions are refused.
const (
	OtherDatabase stricturl.Reason = "other_database"    // the credential is for another database
	BadStartup    stricturl.Reason = "bad_startup"       // the startup message is malformed or late
	Busy          stricturl.Reason = "too_many_sessions" // the database accepts no more sessions
)

var refusals = map[stricturl.Reason]pgwire.Refusal{
	NoPlaceholder: {Code: pgwire.BadPassword, Message: "The password is not a placeholder of ebb. Ask ebb for a credential for this database: the credential stays in ebb, and its placeholder is the password here."},
	NoCredential:  {Code: pgwire.BadPassword, Message: "The sandbox has no such credential, or the credential has expired or was revoked. Ask for one."},
	NotAllowed:    {Code: pgwire.NotAuthorized, Message: "The credential is not for the database at this host and port."},
	OtherDatabase: {Code: pgwire.NoDatabase, Message: "The credential is for another database. Name the one of its scope (PGDATABASE), or ask for a credential for this one."},
	BadStartup:    {Code: pgwire.ProtocolViolation, Message: "The startup message did not arrive within 10 s, or is malformed. Connect again."},
	Busy:          {Code: pgwire.TooManySessions, Message: "The credential has as many sessions as it may have, or the database accepts no more. Close one, then try again."},
	Crowded:       {Code: pgwire.TooManySessions, Message: "This task has as many connections as it may have. Close one, then try again."},
	TooOften:      {Code: pgwire.TooMuch, Message: "This task opens too many sessions. Wait, then try again."},
	TooMuch:       {Code: pgwire.TooMuch, Message: "This task has sent as much as it may send."},
	NoRecord:      {Code: pgwire.NotNow, Message: "The session cannot be written to the audit log. Try again later."},
	Doubt:         {Code: pgwire.NotNow, Message: "ebb cannot check at the moment whether this session may be opened. Try again later."},
}

// refusalOf returns the refusal for an error. Its Detail is the reason code that HTTP requests
// have, too.
func refusalOf(err error) *pgwire.Refusal {
	if r := (*pgwire.Refusal)(nil); errors.As(err, &r) {
		return &pgwire.Refusal{Code: r.Code, Message: r.Message, Detail: string(BadStartup)}
	}
	reason := reasonOf(err)
	r, known := refusals[reason]
	if !known {
		r = pgwire.Refusal{Code: pgwire.CannotConnect, Message: "ebb cannot reach the database. The log of ebb says why."}
	}
	r.Detail = string(reason)
	return &r
}

// sessions are the open sessions of a sandbox by the keys that cancel a query. ebb generates these
// keys: those of the provider stay in ebb, and a sandbox has no key of another sandbox.
type sessions struct {
	mu sync.Mutex
	of map[pgwire.Key]cancellable
	at map[stricturl.Host]bool // hosts that had a session or an SSH connection, so that a lease covered them
}

// known reports whether a host had a session or an SSH connection. Such a host needs no
// certificate.
func (o *sessions) known(h stricturl.Host) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[h]
}

// met records that there is a connection to a host.
func (o *sessions) met(h stricturl.Host) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at = map[stricturl.Host]bool{}
	}
	o.at[h] = true
}

// cancellable is a session whose query can be cancelled.
type cancellable struct {
	leaseID  string
	host     stricturl.Host
	database string
	cancel   func(context.Context) error
}

// keep gives a session a key until forget is called.
func (o *sessions) keep(leaseID, database string, h stricturl.Host, s provider.Session) (key pgwire.Key, forget func()) {
	o.met(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[pgwire.Key]cancellable{}
	}
	for key.ProcessID = s.ProcessID; ; {
		var secret [4]byte
		_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
		key.Secret = binary.BigEndian.Uint32(secret[:])
		if _, taken := o.of[key]; !taken {
			break
		}
	}
	o.of[key] = cancellable{leaseID, h, database, s.Cancel}
	return key, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.of, key)
	}
}

// cancelRequest returns the lease of the session with this key, and the function that cancels its
// query.
func (s *session) cancelRequest(key pgwire.Key) (leaseID string, do func() error, err error) {
	s.x.Method = "CANCEL"
	o := &s.b.sessions
	o.mu.Lock()
	open, is := o.of[key]
	o.mu.Unlock()
	if !is || open.host != s.host {
		return "", nil, deny(NoCredential, errors.New("the sandbox has no session at this host with this cancellation key"))
	}
	return open.leaseID, func() error { return s.cancel(open) }, nil
}

// cancel opens another connection to the database, so that the rules for connections apply: the
// lease is checked, and the audit log is written first.
func (s *session) cancel(open cancellable) error {
	use, err := s.use()
	if err != nil {
		return err
	}
	s.x.Database = open.database
	if err := s.allow(use); err != nil {
		return err
	}
	ctx, done := context.WithTimeout(s.ctx, cancelTime)
	defer done()
	if err := open.cancel(ctx); err != nil {
		return deny(Unreachable, unquoted(err))
	}
	return nil
}
