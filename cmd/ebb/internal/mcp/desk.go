package mcp

import (
	"context"
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
	ctx     context.Context
	sandbox Sandbox

	mu    sync.Mutex
	open  map[question]*flight
	told  map[string]*flight // by the request's name
	order []string           // of told, oldest first
}

// question is what ebb takes for the same question.
type question struct{ scope, resource, tool string }

// flight is one question on its way. What stands before the channels is constant, pending
// once told is closed, and the rest once done is.
type flight struct {
	question question
	asked    scopes.Set
	told     chan struct{} // closed when a person has to decide
	done     chan struct{}
	pending  client.Pending
	until    time.Time // of the request
	outcome  outcome
	err      error

	callers int // that wait for it, under the desk's lock
}

func newDesk(ctx context.Context, s Sandbox) *desk {
	return &desk{ctx: ctx, sandbox: s, open: map[question]*flight{}, told: map[string]*flight{}}
}

// ask puts a question, or joins who has put it. The caller says left when it stops waiting.
func (d *desk) ask(r client.TokenRequest) (*flight, error) {
	q := question{r.Scope.String(), r.Resource, r.Tool}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.open[q]; f != nil {
		f.callers++
		return f, nil
	}
	if len(d.open) >= maxOpen {
		return nil, &broker.Error{Kind: broker.TooMany, Public: "Too many questions of this task are open. Wait for some of them with get_request.", RetryAfter: 10 * time.Second}
	}
	f := &flight{question: q, asked: r.Scope, told: make(chan struct{}), done: make(chan struct{}), callers: 1}
	d.open[q] = f
	go d.fly(f, r)
	return f, nil
}

func (d *desk) left(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.callers--
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
	if err == nil {
		f.outcome = d.settle(f, cred, asked)
	}
	f.err = err
	d.mu.Lock()
	if d.open[f.question] == f {
		delete(d.open, f.question)
	}
	d.mu.Unlock()
	close(f.done)
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
func (d *desk) settle(f *flight, cred client.Credential, asked bool) outcome {
	out := outcomeOf(cred, f.question)
	d.mu.Lock()
	nobody := f.callers == 0 && !asked
	if nobody {
		delete(d.open, f.question) // who asks from here on asks anew
	}
	d.mu.Unlock()
	if out.State == issued && !nobody {
		return out
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), endTime)
	defer cancel()
	if err := d.sandbox.RevokeLease(ctx, cred.LeaseID); err != nil {
		out.DoNext += " ebb could not end the unused credential " + cred.LeaseID + " yet: call revoke_credential."
		out.LeaseID = cred.LeaseID
	}
	return out
}

// endTime is how long ending a credential without a holder may take.
const endTime = 15 * time.Second
