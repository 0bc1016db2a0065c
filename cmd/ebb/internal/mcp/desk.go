package mcp

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Bounds of the requests in progress, and of the outcomes kept for get_request.
const (
	maxOpen = 32
	maxKept = 256
)

// desk holds the requests in progress. They outlive the tool call that made
// them, because an approval takes longer than a client waits.
type desk struct {
	ctx      context.Context
	sandbox  Sandbox
	delivery string // see Config

	mu     sync.Mutex
	open   map[question]*flight
	flying map[*flight]bool   // open, or still used by a caller, or an unused credential is being revoked
	told   map[string]*flight // by request ID
	order  []string           // IDs in told, oldest first
}

// question identifies a request: requests with the same question are one. The
// lifetime is part of it, so that a request for one minute never gets a longer
// one.
type question struct {
	scope, resource, tool, content string
	ttl                            time.Duration
}

// flight is one request in progress. The fields before the channels are
// constant, pending is set once told is closed, and the rest once done is.
type flight struct {
	question question
	asked    string
	told     chan struct{} // closed when the request waits for an approval
	done     chan struct{}
	over     chan struct{} // closed when no caller uses it and no credential of it is being revoked
	pending  client.Pending
	until    time.Time // when the request expires
	outcome  outcome
	err      error

	// Protected by the desk's mutex: how many callers wait, whether the outcome
	// was received or is kept for get_request, whether it is decided, and whether
	// fly has returned.
	callers  int
	taken    bool
	answered bool
	landed   bool
}

func newDesk(ctx context.Context, s Sandbox, delivery string) *desk {
	return &desk{ctx: ctx, sandbox: s, delivery: delivery, open: map[question]*flight{}, flying: map[*flight]bool{}, told: map[string]*flight{}}
}

// ask starts a request, or joins the same one in progress. The caller calls
// left when it stops waiting.
func (d *desk) ask(r client.TokenRequest) (*flight, error) {
	q := question{r.Scope, r.Resource, r.Tool, r.Content, r.TTL}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.open[q]; f != nil {
		f.callers++
		return f, nil
	}
	if len(d.open) >= maxOpen {
		return nil, &fault{kind: wire.KindTooMany, said: "Too many requests of this task are in progress. Wait for some of them with get_request.", after: 10 * time.Second}
	}
	f := &flight{question: q, asked: r.Scope, told: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), callers: 1}
	d.open[q], d.flying[f] = f, true
	r.Delivery = d.delivery
	go d.fly(f, r)
	return f, nil
}

// left records that a caller stops waiting, and whether it received the
// outcome. If the last caller leaves without it, the issued credential is
// unused and is revoked.
func (d *desk) left(f *flight, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.taken = f.taken || told
	if f.answered && f.callers == 1 && !f.taken && f.err == nil && f.outcome.State == issued {
		f.taken = true // so that it is revoked once
		go func() {
			_ = d.end(f.outcome.LeaseID)
			d.left(f, false) // the goroutine counts as a caller, so that settled waits for it
		}()
		return
	}
	f.callers--
	d.rest(f)
}

// rest removes a finished request from those for which settled waits. The mutex
// is held.
func (d *desk) rest(f *flight) {
	if d.flying[f] && f.landed && f.callers == 0 {
		delete(d.flying, f)
		close(f.over)
	}
}

// find returns a request that waited for an approval, by its ID, or nil.
func (d *desk) find(id string) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told[id]
}

// waiting returns the requests that wait for an approval, oldest first.
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

// fly sends the request to ebb and settles the outcome.
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

// answer removes a request from those in progress, and reports whether the
// outcome is wanted: a caller waits for it, or an approver decided it, so that
// it must be available when requested again.
func (d *desk) answer(f *flight, asked bool) (wanted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[f.question] == f {
		delete(d.open, f.question) // a later request starts anew
	}
	f.answered, f.taken = true, f.taken || asked
	return f.callers > 0 || asked
}

// pends records that the request waits for an approval, and drops the oldest
// outcomes beyond maxKept.
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

// settle sets the outcome. A credential that this server cannot return, or that
// no caller waits for, is revoked.
func (d *desk) settle(f *flight, cred client.Credential, asked bool) {
	f.outcome = outcomeOf(cred, f.question, d.delivery)
	if wanted := d.answer(f, asked); wanted && f.outcome.State == issued {
		return
	}
	if err := d.end(cred.LeaseID); err != nil {
		f.outcome.DoNext += " ebb could not revoke the unused credential " + cred.LeaseID + " yet: call revoke_credential."
		f.outcome.LeaseID = cred.LeaseID
	}
}

// end revokes an unused credential. It tries once: if that fails the credential
// ends with its expiry or its task.
func (d *desk) end(leaseID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), endTime)
	defer cancel()
	return d.sandbox.RevokeLease(ctx, leaseID)
}

// settled waits until every request in progress is settled and its unused
// credential revoked, except requests that wait for an approval.
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

// endTime is the timeout of revoking an unused credential.
const endTime = 15 * time.Second
