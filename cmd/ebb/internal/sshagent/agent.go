package sshagent

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// Config configures New.
type Config struct {
	Identities []Identity // at least one
	// State returns the state of a lease; "" = the lease is unknown. Required.
	State  func(ctx context.Context, leaseID string) (wire.LeaseState, error)
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // logs some refusals; nil = discard
}

// Agent is an SSH agent that signs logins. It is safe for concurrent use.
type Agent struct {
	cfg   Config
	ids   []*identity
	lines rate.Sometimes
}

// New returns an agent that has not requested any certificate yet.
func New(c Config) (*Agent, error) {
	if len(c.Identities) == 0 || c.State == nil {
		return nil, errors.New("sshagent: Identities and State are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{cfg: c, lines: rate.Sometimes{First: linesAtOnce, Interval: lineEvery}}
	for _, i := range c.Identities {
		a.ids = append(a.ids, &identity{Identity: i, turn: make(chan struct{}, 1)})
	}
	return a, nil
}

// Ready requests every missing certificate, and returns the accounts of each,
// in the order of the identities.
func (a *Agent) Ready(ctx context.Context) (users [][]string, err error) {
	for _, i := range a.ids {
		if err := i.take(ctx); err != nil {
			return nil, err
		}
		h, err := a.ready(ctx, i)
		i.give()
		if err != nil {
			return nil, err
		}
		users = append(users, h.users)
	}
	return users, nil
}

// Serve serves clients until ctx is done or the listener fails. It closes the
// listener and every connection before it returns.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	capped := web.Capped(l, maxConns)
	stop := context.AfterFunc(ctx, func() { _ = capped.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		c, err := capped.Accept()
		if err != nil {
			cancel()
			return err
		}
		clients.Go(func() {
			defer c.Close() //nolint:errcheck // only responses were written
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			(&conn{a: a, Conn: c}).serve(ctx)
		})
	}
}

// conn is the connection of one client.
type conn struct {
	net.Conn
	a     *Agent
	bound *binding // nil = not bound to a session
}

func (c *conn) serve(ctx context.Context) {
	for {
		kind, body, err := readMessage(c)
		if err != nil {
			return
		}
		answer, out, err := c.answer(ctx, kind, body)
		if err != nil {
			level := slog.LevelInfo
			if kind == msgSign { // of which the client prints only "Permission denied"
				level = slog.LevelWarn
			}
			c.a.say(ctx, level, "the ssh agent refused", "message", kind, "error", err)
			answer, out = msgFailure, nil
		}
		if writeMessage(c, answer, out) != nil {
			return
		}
		// After a failed session-bind the connection is closed: an unbound one
		// would skip the check of the host.
		if errors.Is(err, errForwarded) || errors.Is(err, errBind) || errors.Is(err, errBound) {
			return
		}
	}
}

var errMessageKind = errors.New("the agent only lists certificates and signs logins")

func (c *conn) answer(ctx context.Context, kind byte, body []byte) (answer byte, out []byte, err error) {
	switch kind {
	case msgList:
		if len(body) > 0 {
			return 0, nil, errMessageKind
		}
		return msgIdentities, identities(c.list(ctx)), nil
	case msgSign:
		var r signRequest
		if err := ssh.Unmarshal(body, &r); err != nil {
			return 0, nil, errMessageKind
		}
		signature, err := c.sign(ctx, r)
		if err != nil {
			return 0, nil, err
		}
		return msgSignature, ssh.Marshal(struct{ Signature []byte }{ssh.Marshal(signature)}), nil
	case msgExtension:
		var e extension
		if ssh.Unmarshal(body, &e) != nil || e.Name != extensionBind {
			return 0, nil, errMessageKind
		}
		return msgSuccess, nil, c.bind(e.Contents)
	}
	return 0, nil, errMessageKind
}

// list returns the certificates for the host of the connection, and requests
// missing ones.
func (c *conn) list(ctx context.Context) (out []listed) {
	elsewhere := 0
	for _, i := range c.a.ids {
		if c.bound != nil && !c.a.permits(i.Hosts, c.bound.host) {
			elsewhere++
			continue
		}
		if i.take(ctx) != nil {
			return nil
		}
		h, err := c.a.ready(ctx, i)
		i.give()
		if err != nil {
			c.a.say(ctx, slog.LevelWarn, "the ssh agent has no certificate", "identity", i.Name, "error", err)
			continue
		}
		out = append(out, listed{h.cert.Marshal(), i.Name})
	}
	if elsewhere == len(c.a.ids) {
		c.a.say(ctx, slog.LevelWarn, "the ssh agent has no certificate for a host with this key", "host_key", ssh.FingerprintSHA256(c.bound.host))
	}
	return out
}

// Bounds of log lines about refusals, because a client can cause any number of
// them.
const (
	linesAtOnce = 20
	lineEvery   = 10 * time.Second
)

// say logs a refusal, within the bounds.
func (a *Agent) say(ctx context.Context, level slog.Level, what string, args ...any) {
	if a.cfg.Logger.Enabled(ctx, level) {
		a.lines.Do(func() { a.cfg.Logger.Log(ctx, level, what, args...) })
	}
}

// sign signs one login. All checks that do not need ebb come first.
func (c *conn) sign(ctx context.Context, r signRequest) (*ssh.Signature, error) {
	l, err := parseLogin(r.Data)
	if err != nil {
		return nil, err
	}
	for _, i := range c.a.ids {
		if err := i.take(ctx); err != nil {
			return nil, err
		}
		mine := i.now != nil && bytes.Equal(i.now.cert.Marshal(), r.Key)
		var signature *ssh.Signature
		if mine {
			signature, err = c.signWith(ctx, i, l, r.Data)
		}
		i.give()
		if mine {
			return signature, err
		}
	}
	return nil, errKey
}

// signWith signs with one identity. The caller has taken the identity.
func (c *conn) signWith(ctx context.Context, i *identity, l login, data []byte) (*ssh.Signature, error) {
	if err := l.with(i.now.cert, i.now.users); err != nil {
		return nil, err
	}
	if err := c.fits(l, i.Hosts); err != nil {
		return nil, err
	}
	h, err := c.a.alive(ctx, i)
	switch {
	case err != nil:
		return nil, err
	case h == nil: // the certificate has expired; the next list requests another
		return nil, errKey
	}
	return h.signer.Sign(rand.Reader, data)
}
