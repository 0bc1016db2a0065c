package mcp

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"ebb/broker"
	"ebb/scopes"
	"ebb/web/client"
)

// Bounds of the desk: questions under way, and answers that are kept for get_request.
const (
	maxOpen = 32
	maxKept = 256
)

// desk holds the questions that are under way. They outlive the call that put them: a
// person takes longer than clients wait.
type desk struct {
	ctx      context.Context
	sandbox  Sandbox
	delivery string // see Config

	mu     sync.Mutex
	open   map[question]*flight
	flying map[*flight]bool   // open, not yet left by all who wait, or ending what came of it
	told   map[string]*flight // by the request's name
	order  []string           // of told, oldest first
}

// question is what ebb takes for the same question, and for how long: who asks for a minute
// gets no more.
type question struct {
	scope, resource, tool string
	ttl                   time.Duration
}

// flight is one question on its way. What stands before the channels is constant, pending
// once told is closed, and the rest once done is.
type flight struct {
	question question
	asked    scopes.Set
	told     chan struct{} // closed when a person has to decide
	done     chan struct{}
	over     chan struct{} // closed when nobody holds it and nothing of it is being ended
	pending  client.Pending
	until    time.Time // of the request
	outcome  outcome
	err      error

	// Under the desk's lock: how many wait for it, whether one of them was told what came of
	// it, whether it has been decided what becomes of that, and whether that has been done.
	callers  int
	taken    bool
	answered bool
	landed   bool
}

func newDesk(ctx context.Context, s Sandbox, delivery string) *desk {
	return &desk{ctx: ctx, sandbox: s, delivery: delivery, open: map[question]*flight{}, flying: map[*flight]bool{}, told: map[string]*flight{}}
}

// ask puts a question, or joins who has put it. The caller says left when it stops waiting.
func (d *desk) ask(r client.TokenRequest) (*flight, error) {
	q := question{r.Scope.String(), r.Resource, r.Tool, r.TTL}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.open[q]; f != nil {
		f.callers++
		return f, nil
	}
	if len(d.open) >= maxOpen {
		return nil, &broker.Error{Kind: broker.TooMany, Public: "Too many questions of this task are open. Wait for some of them with get_request.", RetryAfter: 10 * time.Second}
	}
	f := &flight{question: q, asked: r.Scope, told: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), callers: 1}
	d.open[q], d.flying[f] = f, true
	r.Delivery = d.delivery
	go d.fly(f, r)
	return f, nil
}

// left notes that a caller waits no more, and whether it was told what came of it. What the
// last one leaves behind untold has no holder, and is ended.
func (d *desk) left(f *flight, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.taken = f.taken || told
	if f.answered && f.callers == 1 && !f.taken && f.err == nil && f.outcome.State == issued {
		f.taken = true // once
		go func() {
			_ = d.end(f.outcome.LeaseID)
			d.left(f, false) // until here it is a caller: who stops waits for it
		}()
		return
	}
	f.callers--
	d.rest(f)
}

// rest takes a question from those that settled waits for, once it is over. The lock is held.
func (d *desk) rest(f *flight) {
	if d.flying[f] && f.landed && f.callers == 0 {
		delete(d.flying, f)
		close(f.over)
	}
}

// find is a question of which people were told, by the request's name, or nil.
func (d *desk) find(id string) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told[id]
}

// waiting are the questions that people have, oldest first.
func (d *desk) waiting() (all []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.order {
		f := d.told[id]
		select {
		case <-f.done:
		default:
			all = append(all, f)
		}
	}
	return all
}

// fly asks ebb and settles what comes of it.
func (d *desk) fly(f *flight, r client.TokenRequest) {
	asked := false
	r.Pending = func(p client.Pending) {
		if !asked {
			asked = true
			d.pends(f, p)
		}
	}
	cred, err := d.sandbox.Token(d.ctx, r)
	f.err = err
	if err == nil {
		d.settle(f, cred, asked)
	} else {
		d.answer(f, false)
	}
	close(f.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	f.landed = true
	d.rest(f)
}

// answer takes a question from those under way, and reports whether somebody waits for what
// came of it. People who were asked want it to be there when it is asked for again.
func (d *desk) answer(f *flight, asked bool) (wanted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[f.question] == f {
		delete(d.open, f.question) // who asks from here on asks anew
	}
	f.answered, f.taken = true, f.taken || asked
	return f.callers > 0 || asked
}

// pends notes that people were told, and forgets the oldest answers beyond what is kept.
func (d *desk) pends(f *flight, p client.Pending) {
	f.pending, f.until = p, time.Now().Add(p.ExpiresIn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.RequestID != "" {
		if d.told[p.RequestID] == nil {
			d.order = append(d.order, p.RequestID)
		}
		d.told[p.RequestID] = f
	}
	for i := 0; len(d.order) > maxKept && i < len(d.order); {
		id := d.order[i]
		select {
		case <-d.told[id].done:
			delete(d.told, id)
			d.order = slices.Delete(d.order, i, i+1)
		default:
			i++
		}
	}
	close(f.told)
}

// settle says what came of it. A credential that cannot be handed out here, or that nobody
// waits for any more, has no holder: it is ended.
func (d *desk) settle(f *flight, cred client.Credential, asked bool) {
	f.outcome = outcomeOf(cred, f.question, d.delivery)
	if wanted := d.answer(f, asked); wanted && f.outcome.State == issued {
		return
	}
	if err := d.end(cred.LeaseID); err != nil {
		f.outcome.DoNext += " ebb could not end the unused credential " + cred.LeaseID + " yet: call revoke_credential."
		f.outcome.LeaseID = cred.LeaseID
	}
}

// end ends what has no holder. It is tried once: what cannot be ended so ends with its
// expiry, or with the task.
func (d *desk) end(leaseID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), endTime)
	defer cancel()
	return d.sandbox.RevokeLease(ctx, leaseID)
}

// settled waits until nothing is under way but what people were asked, for as long as it
// takes to end what has no holder.
func (d *desk) settled(ctx context.Context) {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.flying))
	d.mu.Unlock()
	for _, f := range all {
		select {
		case <-f.over:
		case <-f.told:
		case <-ctx.Done():
			return
		}
	}
}

// endTime is how long ending a credential without a holder may take.
const endTime = 15 * time.Second
