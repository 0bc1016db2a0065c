package notifier

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/notify"
	"ebb/broker/pace"
)

// channel is a Channel and what this process knows of it.
type channel struct {
	Channel
	breaker *pace.Breaker

	mu    sync.Mutex
	gone  bool      // it said so: nothing is sent until ebb starts anew
	quiet time.Time // it wants to be left alone until then
}

// Attempts at one message, and when a channel that fails is left alone.
var (
	again   = pace.Backoff{Min: 5 * time.Second, Max: 10 * time.Minute}
	resting = pace.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}
)

const (
	failures = 3                // in a row, that let a channel rest
	hold     = 2 * time.Minute  // of a claim
	patience = 30 * time.Second // with one message; hold is longer than that for all of a round
	round    = 3                // messages taken at one time
)

func newChannel(c Channel) *channel {
	return &channel{Channel: c, breaker: &pace.Breaker{Failures: failures, Backoff: resting}}
}

// rests reports whether nothing should be sent now.
func (c *channel) rests(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone || now.Before(c.quiet)
}

// Deliver sends what is due at a channel, until nothing is or the channel rests.
func (n *Notifier) Deliver(ctx context.Context, name string) error {
	c := n.channels[name]
	for ctx.Err() == nil {
		now := n.cfg.Now()
		if c.rests(now) || c.breaker.State(now) == pace.Open {
			return nil
		}
		taken, err := n.cfg.Store.TakeMessages(ctx, name, now, now.Add(hold), round)
		if err != nil || len(taken) == 0 {
			return err
		}
		for _, t := range taken {
			if err := n.deliver(ctx, c, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver makes one attempt at one message and writes down what came of it.
func (n *Notifier) deliver(ctx context.Context, c *channel, t notify.Taken) error {
	now := n.cfg.Now()
	o := notify.Outcome{ID: t.ID, Fence: t.Fence, At: now}
	m, err := n.message(ctx, t, now)
	turn, granted := c.breaker.Try(now)
	switch {
	case err != nil || !granted || c.rests(now): // it waits; what the others say holds for it too
		if granted {
			turn.Cancel()
		}
		o.State, o.Next = notify.StateWaiting, now.Add(again.Min)
		return errors.Join(err, n.settle(ctx, c, o, "put_off"))
	case len(m.Notices) == 0:
		turn.Cancel()
		o.State = notify.StateDropped
		return n.settle(ctx, c, o, "over")
	}
	send, cancel := context.WithTimeout(ctx, patience)
	_, err = c.Sender.Send(send, m)
	cancel()
	if ctx.Err() != nil { // ebb ends: that says nothing of the channel
		turn.Cancel()
		return ctx.Err()
	}
	return n.judge(ctx, c, turn, t, o, err)
}

// judge makes of an attempt what follows from it.
func (n *Notifier) judge(ctx context.Context, c *channel, turn pace.Turn, t notify.Taken, o notify.Outcome, err error) error {
	now := n.cfg.Now()
	busy, isBusy := errors.AsType[*notify.BusyError](err)
	gone, refused := errors.Is(err, notify.ErrGone), errors.Is(err, notify.ErrRefused)
	turn.Done(err == nil || isBusy || gone || refused, now, rand.Float64())
	o.At = now
	switch {
	case err == nil:
		o.State = notify.StateSent
		return n.settle(ctx, c, o, "sent")
	case gone:
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		n.cfg.Logger.ErrorContext(ctx, "a channel of notifications is gone, so that nothing more is sent there; take it out of notify.channels, or repair it and start ebb anew", "channel", c.Name)
		o.State = notify.StateFailed
		return n.settle(ctx, c, o, "gone")
	case refused:
		n.cfg.Logger.WarnContext(ctx, "a notification was refused", "channel", c.Name, "message", t.ID, "error", err)
		o.State = notify.StateFailed
		return n.settle(ctx, c, o, "refused")
	}
	wait := again.Wait(t.Attempts+1, rand.Float64())
	if isBusy {
		wait = max(wait, busy.After)
		c.mu.Lock()
		c.quiet = now.Add(busy.After)
		c.mu.Unlock()
	}
	n.cfg.Logger.WarnContext(ctx, "a notification was not taken", "channel", c.Name, "message", t.ID, "attempts", t.Attempts+1, "error", err)
	if o.Next = now.Add(wait); o.Next.After(t.Until) {
		o.Next, o.State = time.Time{}, notify.StateFailed
		return n.settle(ctx, c, o, "given_up")
	}
	o.State = notify.StateWaiting
	return n.settle(ctx, c, o, "retried")
}

// settle writes an outcome down. Who was too slow is not heard: somebody else has the
// message now.
func (n *Notifier) settle(ctx context.Context, c *channel, o notify.Outcome, outcome string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	n.m.messages.WithLabelValues(c.Name, outcome).Inc()
	if err := n.cfg.Store.SettleMessage(ctx, o); err != nil && !errors.Is(err, notify.ErrStale) {
		return err
	}
	return nil
}

// message is what is still worth saying of what was planned.
func (n *Notifier) message(ctx context.Context, t notify.Taken, now time.Time) (notify.Message, error) {
	m := t.Message
	m.At, m.Base, m.To = now, n.cfg.Base, t.Address
	var ids []string
	for _, i := range t.Items {
		if i.Notice.Event.Open() {
			ids = append(ids, i.Notice.Subject)
		}
	}
	open := map[string]bool{}
	if len(ids) > 0 {
		rs, err := n.cfg.Desk.Requests(ctx, broker.RequestFilter{IDs: ids, Page: broker.Page{Limit: len(ids)}})
		if err != nil {
			return m, err
		}
		for _, r := range rs {
			open[r.ID] = waits(r, now)
		}
	}
	for _, i := range t.Items {
		if i.Until.After(now) && (!i.Notice.Event.Open() || open[i.Notice.Subject]) {
			m.Notices = append(m.Notices, i.Notice)
		}
	}
	return m, nil
}
