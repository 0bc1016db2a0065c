package egress

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"

	"ebb/broker/egress/pgwire"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// sessions are those that are open in a box, by keys of their own that cancel a query: the
// provider's keys stay here, and a box has none of another's.
type sessions struct {
	mu sync.Mutex
	of map[pgwire.Key]cancellable
	at map[exact.Host]bool // where there was one, or an SSH connection: places of the operator's, that a lease was for
}

// known reports whether there was a session or a connection at a host: it takes no certificate.
func (o *sessions) known(h exact.Host) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[h]
}

// met notes that there is a connection to a host.
func (o *sessions) met(h exact.Host) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at = map[exact.Host]bool{}
	}
	o.at[h] = true
}

// cancellable is a session whose query can be cancelled.
type cancellable struct {
	leaseID  string
	host     exact.Host
	database string
	cancel   func(context.Context) error
}

// keep gives a session of a lease a key until forget.
func (o *sessions) keep(leaseID, database string, h exact.Host, s provider.Session) (key pgwire.Key, forget func()) {
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

// cancels is what cancels the query of an open session of the box, and by which lease.
func (s *session) cancels(key pgwire.Key) (leaseID string, do func() error, err error) {
	s.x.Method = "CANCEL"
	o := &s.b.sessions
	o.mu.Lock()
	open, is := o.of[key]
	o.mu.Unlock()
	if !is || open.host != s.host {
		return "", nil, deny(NoCredential, errors.New("no session of the box at this host has this key"))
	}
	return open.leaseID, func() error { return s.cancel(open) }, nil
}

// cancel connects to the database once more, and so goes by the rules of what connects there: its
// lease is asked, and it is on the record before.
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
