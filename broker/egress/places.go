package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/exact"
)

// places are the connections that boxes have, and ebb has for them to upstreams: each is a
// descriptor of this process, and a goroutine at least. Nobody waits for one, so that a task which
// has all that it may have is told so.
type places struct {
	mu   sync.Mutex
	of   share
	most int // of all
}

// maxPlaces is how many there are where nobody says.
const maxPlaces = 4096

func newPlaces(most int) places {
	// Of few a task has a large part, so that they are enough for its box; of many a small one.
	return places{most: most, of: share{parts: min(shares, max(4, most/512))}}
}

var errNoPlace = errors.New("the task has as many connections as it may have of all that there are")

// take is a place for a connection of a task until give, nil = it has its part.
func (p *places) take(root string) (give func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.of.take(root, 1, p.most, p.most) {
		return nil
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.of.give(root, 1)
	})
}

// dial connects for a caller. Where the task has its part of the places, those of its connections
// are closed first that no request uses.
func (p *Proxy) dial(who broker.Caller, to func() (net.Conn, error)) (net.Conn, error) {
	give := p.places.take(who.Root())
	if give == nil {
		p.pools.idle(who.Root())
		if give = p.places.take(who.Root()); give == nil {
			return nil, deny(Crowded, errNoPlace)
		}
	}
	c, err := to()
	if err != nil {
		give()
		return nil, err
	}
	return &dialled{slot{Conn: c, give: give}}, nil
}

// idle closes the connections of a task that no request uses.
func (p *pools) idle(task string) {
	p.mu.Lock()
	all := make([]*pool, 0, len(p.by[task]))
	for k := range p.by[task] {
		all = append(all, p.of[k])
	}
	p.mu.Unlock()
	for _, pl := range all {
		pl.CloseIdleConnections()
	}
}

// dialled is a connection to an upstream, which has its place until it is closed.
type dialled struct{ slot }

// CloseWrite says that nothing more comes.
func (d *dialled) CloseWrite() error {
	if half, can := d.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return d.Close()
}

// farewell is for how long who is turned away may go on talking.
const farewell = time.Second

// turnAway says why a connection of the box has no place. A box has one turned away at a time, so
// that to try without end is of no use.
func (b *box) turnAway(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	b.p.cfg.Record.UseDenied(context.WithoutCancel(ctx), b.who, "", broker.Exchange{Tool: b.who.Tool, Reason: string(Crowded)})
	if leftOut, now := b.free.line(); now {
		b.p.cfg.Logger.InfoContext(ctx, "egress refused", "task_id", b.who.TaskID, "tool", b.who.Tool, "reason", Crowded, "left_out", leftOut, "error", errNoPlace)
	}
	sayGone(c, Crowded)
}

// sayGone answers a connection that nobody takes, for a reason that may be over soon, in HTTP, which is
// what a box speaks first.
func sayGone(c net.Conn, reason exact.Reason) {
	body, _ := json.Marshal(refusal{Error: "egress_denied", Reason: reason}) // of strings alone
	_ = c.SetDeadline(time.Now().Add(farewell))
	_, err := io.WriteString(c, "HTTP/1.1 "+strconv.Itoa(statuses[reason])+" "+http.StatusText(statuses[reason])+"\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+string(body))
	if half, can := c.(interface{ CloseWrite() error }); err == nil && can {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(c, maxHeader)) // who writes to what is closed reads no answer
	}
}

// counted takes no more connections than a box may have: those beyond wait. Those for which its
// task has no place are turned away.
type counted struct {
	net.Listener
	b   *box
	ctx context.Context
}

// Accept implements net.Listener.
func (l *counted) Accept() (net.Conn, error) {
	select {
	case l.b.slots <- struct{}{}:
	case <-l.ctx.Done(): // who waits for a place would wait until somebody gives one up
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.b.slots
			return nil, err
		}
		if give := l.b.p.places.take(l.b.who.Root()); give != nil {
			return &strict{Conn: &slot{Conn: c, give: sync.OnceFunc(func() { give(); <-l.b.slots })}}, nil
		}
		l.b.turnAway(l.ctx, c)
	}
}

type slot struct {
	net.Conn
	give func()
}

// Close implements net.Conn.
func (s *slot) Close() error {
	s.give()
	return s.Conn.Close()
}
