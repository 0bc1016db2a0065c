package notifier

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/people"
)

// channel is a notify.Channel and the state that this process keeps for it.
type channel struct {
	notify.Channel
	breaker *pace.Breaker

	mu    sync.Mutex
	gone  bool      // the receiver answered 410: no message is sent until ebb is restarted
	quiet time.Time // the receiver asked to wait until then
}

// The delays between attempts at one message, and the limits after which a failing channel pauses.
var (
	again   = pace.Backoff{Min: 5 * time.Second, Max: 10 * time.Minute}
	resting = pace.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}
)

const (
	failures = 3                // consecutive failures that pause a channel
	hold     = 2 * time.Minute  // of a claim
	patience = 30 * time.Second // with one message; hold is longer than patience for all messages of a round
	round    = 3                // messages taken at one time
)

func newChannel(c notify.Channel) *channel {
	return &channel{Channel: c, breaker: &pace.Breaker{Failures: failures, Backoff: resting}}
}

// rests reports whether the channel is paused after failures.
func (c *channel) rests(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone || now.Before(c.quiet)
}

// Deliver sends the due messages of a channel until none is due or the channel pauses.
func (n *Notifier) Deliver(ctx context.Context, name string) error {
	c := n.channels[name]
	for ctx.Err() == nil {
		now := n.cfg.Now()
		if c.rests(now) || c.breaker.State(now) == pace.Open {
			return nil
		}
		taken, err := n.cfg.Outbox.TakeMessages(ctx, name, now, now.Add(hold), round)
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

// deliver makes one attempt at one message and stores the outcome.
func (n *Notifier) deliver(ctx context.Context, c *channel, t notify.Taken) error {
	now := n.cfg.Now()
	o := notify.Outcome{ID: t.ID, Fence: t.Fence, At: now}
	m, err := n.message(ctx, t, now)
	turn, granted := c.breaker.Try(now)
	switch {
	case err != nil || !granted || c.rests(now): // the message waits; a pause reported by the other attempts holds for it, too
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
	if ctx.Err() != nil { // ebb is stopping: no information about the channel
		turn.Cancel()
		return ctx.Err()
	}
	return n.judge(ctx, c, turn, t, o, err)
}

// judge decides the next step after an attempt: done, try again, or give up.
func (n *Notifier) judge(ctx context.Context, c *channel, turn pace.Turn, t notify.Taken, o notify.Outcome, err error) error {
	now := n.cfg.Now()
	busy, isBusy := errors.AsType[*notify.BusyError](err)
	gone, refused := errors.Is(err, notify.ErrGone), errors.Is(err, notify.ErrRefused)
	turn.Done(err == nil || isBusy || gone || refused || errors.Is(err, notify.ErrAddress), now, rand.Float64())
	o.At, o.State = now, notify.StateFailed
	switch {
	case err == nil:
		o.State = notify.StateSent
		return n.settle(ctx, c, o, "sent")
	case gone:
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		n.cfg.Logger.ErrorContext(ctx, "the receiver of a notification channel is gone, and no more messages are sent to it; remove it from notify.channels, or repair it and restart ebb", "channel", c.Name)
		return n.settle(ctx, c, o, "gone")
	case refused:
		n.cfg.Logger.WarnContext(ctx, "a notification was refused", "channel", c.Name, "message", t.ID, "error", err)
		return n.settle(ctx, c, o, "refused")
	}
	wait := again.Wait(t.Attempts+1, rand.Float64())
	if isBusy {
		wait = max(wait, busy.After)
		c.mu.Lock()
		c.quiet = now.Add(busy.After)
		c.mu.Unlock()
	}
	n.cfg.Logger.WarnContext(ctx, "a notification was not accepted", "channel", c.Name, "message", t.ID, "attempts", t.Attempts+1, "error", err)
	if now.Add(wait).After(t.Until) {
		return n.settle(ctx, c, o, "given_up")
	}
	o.State, o.Next = notify.StateWaiting, now.Add(wait)
	return n.settle(ctx, c, o, "retried")
}

// settle stores an outcome. If this replica took longer than its claim, another replica has the
// message now, and the outcome is dropped.
func (n *Notifier) settle(ctx context.Context, c *channel, o notify.Outcome, outcome string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	n.m.messages.WithLabelValues(c.Name, outcome).Inc()
	if err := n.cfg.Outbox.SettleMessage(ctx, o); err != nil && !errors.Is(err, notify.ErrStale) {
		return err
	}
	return nil
}

// message returns the planned message with the notices that are still current. It leaves out notices that go to the
// recipient's delegate instead.
func (n *Notifier) message(ctx context.Context, t notify.Taken, now time.Time) (notify.Message, error) {
	m := t.Message
	m.At, m.Base, m.To = now, n.cfg.Base, t.Address
	var ids []string
	for _, i := range t.Items {
		if i.Notice.Event.Open() {
			ids = append(ids, i.Notice.Subject)
		}
	}
	open := map[string]broker.Request{}
	if len(ids) > 0 {
		rs, err := n.cfg.ApprovalStore.Requests(ctx, broker.RequestFilter{IDs: ids, Page: broker.Page{Limit: len(ids)}})
		if err != nil {
			return m, err
		}
		for _, r := range rs {
			if waits(r, now) {
				open[r.ID] = r
			}
		}
	}
	var to people.Reach
	var known everybody // nil = the recipient is present
	if t.Person != "" && len(open) > 0 {
		var err error
		if to, err = n.cfg.People.Reach(ctx, t.Person); err == nil && to.Preferences.Away.At(now) {
			known, err = n.everybody(ctx)
		}
		if err != nil && !errors.Is(err, people.ErrNone) {
			return m, err
		}
	}
	for _, i := range t.Items {
		if !i.Until.After(now) {
			continue
		}
		if i.Notice.Event.Open() {
			r, is := open[i.Notice.Subject]
			if !is {
				continue
			}
			if known != nil {
				if gone, err := n.delegated(ctx, to, i, r, known); err != nil {
					return m, err
				} else if gone {
					continue
				}
			}
		}
		m.Notices = append(m.Notices, i.Notice)
	}
	return m, nil
}

// metrics use the channel names from the operator's configuration as labels.
type metrics struct {
	messages *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ebb_notifications_total", Help: "Attempts at messages to people by channel and outcome: sent, retried, put_off, refused, given_up, gone, over (no longer current).",
		}, []string{"channel", "outcome"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_notifications_waiting", Help: "Messages that are due and not sent."}, []string{"channel"}),
		oldest:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ebb_notifications_oldest_seconds", Help: "Seconds since the oldest unsent message became due; 0 if there is none."}, []string{"channel"}),
	}
	if r != nil {
		r.MustRegister(m.messages, m.waiting, m.oldest)
	}
	return m
}

// count sets the metrics of the queue.
func (n *Notifier) count(ctx context.Context) error {
	now := n.cfg.Now()
	all, err := n.cfg.Outbox.Backlogs(ctx, now)
	if err != nil {
		return err
	}
	for name := range n.channels {
		n.m.waiting.WithLabelValues(name).Set(0)
		n.m.oldest.WithLabelValues(name).Set(0)
	}
	for _, b := range all {
		if n.channels[b.Channel] != nil {
			n.m.waiting.WithLabelValues(b.Channel).Set(float64(b.Waiting))
			n.m.oldest.WithLabelValues(b.Channel).Set(now.Sub(b.Oldest).Seconds())
		}
	}
	return nil
}
