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

// cancellable is a session for as long as its context.
type cancellable struct {
	ctx    context.Context
	cancel func(context.Context) error
}

// keep gives a session at a host a key until forget.
func (o *sessions) keep(ctx context.Context, h exact.Host, s provider.Session) (key pgwire.Key, forget func()) {
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
	o.of[key] = cancellable{ctx, s.Cancel}
	return key, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.of, key)
	}
}

// cancel has the query of a session cancelled, if it is one of the box's. Each costs a
// connection, or is a guess: a box makes so many and no more.
func (o *sessions) cancel(b *box, key pgwire.Key) error {
	if !b.free.unknown.Allow() {
		return deny(TooOften, nil)
	}
	o.mu.Lock()
	s, is := o.of[key]
	o.mu.Unlock()
	if !is {
		return deny(NoCredential, errors.New("no session of the box has this key"))
	}
	ctx, done := context.WithTimeout(s.ctx, cancelTime)
	defer done()
	if err := s.cancel(ctx); err != nil {
		return deny(Unreachable, unquoted(err))
	}
	return nil
}
