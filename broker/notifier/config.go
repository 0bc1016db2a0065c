package notifier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
)

// Outbox holds the notification queue in the database.
type Outbox interface {
	notify.Sources
	notify.Outbox
}

// Route selects events and names the channels for them. An empty member selects everything.
type Route struct {
	Events    []notify.Event
	Groups    []string // the groups that decide the request; a route with groups selects requests only
	Providers []string
	MinRisk   risk.Level
	Channels  []string
	Escalate  []string // channels that are notified when half of a request's waiting time is over
	// EscalateGroups are the groups whose members are notified at escalation, through channels
	// that reach persons; empty means the groups that may decide the request.
	EscalateGroups []string
}

// Config holds the arguments of New.
type Config struct {
	Outbox        Outbox                              // required
	Tasks         broker.Store                        // required
	ApprovalStore broker.ApprovalStore                // required
	People        people.ReachStore                   // required
	Base          string                              // public URL; required
	Rights        func(people.Reach) broker.Principal // current rights of a person; required
	Channels      []notify.Channel
	Routes        []Route
	Digest        time.Duration // between digests; 0 = 15 min
	Most          int           // messages sent at once to one recipient between digests; 0 = 20

	Poll       time.Duration         // interval of reading the audit log and the outbox; 0 = 1 s
	Now        func() time.Time      // nil = time.Now
	Logger     *slog.Logger          // nil = discard
	Registerer prometheus.Registerer // nil = none
}

// Notifier sends notifications. Replicas share the work through the Store.
type Notifier struct {
	cfg      Config
	channels map[string]*channel
	m        *metrics
}

// New checks the configuration and returns a Notifier.
func New(c Config) (*Notifier, error) {
	if c.Outbox == nil || c.Tasks == nil || c.ApprovalStore == nil || c.People == nil || c.Rights == nil || c.Base == "" {
		return nil, errors.New("notifier: Outbox, Tasks, ApprovalStore, People, Rights and Base are required")
	}
	c.Digest, c.Most, c.Poll = cmp.Or(max(c.Digest, 0), 15*time.Minute), cmp.Or(max(c.Most, 0), 20), cmp.Or(max(c.Poll, 0), time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	n := &Notifier{cfg: c, channels: map[string]*channel{}, m: newMetrics(c.Registerer)}
	for _, ch := range c.Channels {
		if ch.Name == "" || ch.Sender == nil || n.channels[ch.Name] != nil {
			return nil, fmt.Errorf("notifier: channel %q has no name or no sender, or its name is used twice", ch.Name)
		}
		n.channels[ch.Name] = newChannel(ch)
	}
	for i, r := range c.Routes {
		for _, name := range slices.Concat(r.Channels, r.Escalate) {
			if n.channels[name] == nil {
				return nil, fmt.Errorf("notifier: route %d names the channel %q, which is not configured", i, name)
			}
		}
		for _, e := range r.Events {
			if !e.Known() {
				return nil, fmt.Errorf("notifier: route %d names the event %q, which does not exist", i, e)
			}
		}
	}
	return n, nil
}

// forgetAfter is the time for which sent notifications are remembered: longer than any request can
// wait, so that no notification is sent twice.
const forgetAfter = 7 * 24 * time.Hour

// Run sends notifications until ctx is done. While the database does not answer, it waits.
func (n *Notifier) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	work := func(interval time.Duration, failure string, do func(context.Context) error) {
		g.Go(func() error {
			every(ctx, interval, func() bool { n.try(ctx, failure, do); return false })
			return nil
		})
	}
	g.Go(func() error {
		const unread = "the audit log could not be read"
		every(ctx, n.cfg.Poll, func() bool { return n.try(ctx, unread, n.cfg.Outbox.ReadFromHere) })
		work(n.cfg.Poll, unread, n.Follow)
		return nil
	})
	for _, c := range n.channels {
		work(n.cfg.Poll, "messages could not be claimed", func(ctx context.Context) error { return n.Deliver(ctx, c.Name) })
	}
	work(15*time.Second, "the backlog could not be read", n.count)
	work(time.Minute, "old messages could not be removed", func(ctx context.Context) error {
		return n.cfg.Outbox.ForgetMessages(ctx, n.cfg.Now().Add(-forgetAfter))
	})
	return g.Wait()
}

// try calls do with a limit of one minute, because a database may never answer. It logs a failure
// and reports success.
func (n *Notifier) try(ctx context.Context, what string, do func(context.Context) error) bool {
	inTime, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := do(inTime)
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.WarnContext(ctx, "notifications wait: "+what, "error", err)
	}
	return err == nil
}

// every calls do at each interval d until do returns true or ctx is done.
func every(ctx context.Context, d time.Duration, do func() (done bool)) {
	t := time.NewTicker(d)
	defer t.Stop()
	for !do() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
