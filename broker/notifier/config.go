package notifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"ebb/broker"
	"ebb/broker/notify"
	"ebb/broker/people"
	"ebb/broker/risk"
)

// Store is what is asked of the database.
type Store interface {
	notify.Sources
	notify.Outbox
}

// Channel is one configured place.
type Channel struct {
	Name   string
	Sender notify.Sender
	Place  bool // it has a place of its own that everything goes to
	People bool // it reaches people by their own address
}

// Route says what goes where. Empty members leave nothing out.
type Route struct {
	Events    []notify.Event
	Groups    []string // that decide the request; a route with groups is for requests alone
	Providers []string
	MinRisk   risk.Level
	Channels  []string
	Escalate  []string // channels that are told when half of a request's time is over
	// EscalateGroups are whose members are told then, through channels that reach people;
	// empty = those that decide the request.
	EscalateGroups []string
}

// Config is what New needs.
type Config struct {
	Store    Store             // required
	Journal  broker.Journal    // required
	Desk     broker.Desk       // required
	People   people.ReachStore // required
	Base     string            // public URL; required
	Channels []Channel
	Routes   []Route
	Digest   time.Duration // between digests; 0 = 15 min
	Most     int           // messages at once to one recipient between digests; 0 = 20

	Poll       time.Duration         // how often the record and the outbox are looked at; 0 = 1 s
	Now        func() time.Time      // nil = time.Now
	Logger     *slog.Logger          // nil = discard
	Registerer prometheus.Registerer // nil = none
}

// Notifier tells people. Replicas share its work.
type Notifier struct {
	cfg      Config
	channels map[string]*channel
	m        *metrics
}

// New checks the configuration.
func New(c Config) (*Notifier, error) {
	if c.Store == nil || c.Journal == nil || c.Desk == nil || c.People == nil || c.Base == "" {
		return nil, errors.New("notifier: Store, Journal, Desk, People and Base are required")
	}
	if c.Digest <= 0 {
		c.Digest = 15 * time.Minute
	}
	if c.Most <= 0 {
		c.Most = 20
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Notifier{cfg: c, channels: map[string]*channel{}, m: newMetrics(c.Registerer)}
	for _, ch := range c.Channels {
		if ch.Name == "" || ch.Sender == nil || n.channels[ch.Name] != nil {
			return nil, fmt.Errorf("notifier: channel %q is not whole, or there twice", ch.Name)
		}
		n.channels[ch.Name] = newChannel(ch)
	}
	for i, r := range c.Routes {
		for _, name := range slices.Concat(r.Channels, r.Escalate) {
			if n.channels[name] == nil {
				return nil, fmt.Errorf("notifier: route %d names %q, which is no channel", i, name)
			}
		}
		for _, e := range r.Events {
			if !e.Known() {
				return nil, fmt.Errorf("notifier: route %d names %q, which is no event", i, e)
			}
		}
	}
	return n, nil
}

// forgetAfter is how long what was told is kept: longer than any request waits, so that
// nobody is told twice.
const forgetAfter = 7 * 24 * time.Hour

// Run tells people until ctx is done. A database that does not answer is waited for.
func (n *Notifier) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		every(ctx, n.cfg.Poll, func() bool { return n.try(ctx, "the record could not be read", n.cfg.Store.ReadFromHere) })
		every(ctx, n.cfg.Poll, func() bool { n.try(ctx, "the record could not be read", n.Follow); return false })
		return nil
	})
	for _, c := range n.channels {
		g.Go(func() error {
			every(ctx, n.cfg.Poll, func() bool {
				n.try(ctx, "messages could not be taken", func(ctx context.Context) error { return n.Deliver(ctx, c.Name) })
				return false
			})
			return nil
		})
	}
	g.Go(func() error {
		every(ctx, 15*time.Second, func() bool { n.try(ctx, "the backlog could not be read", n.count); return false })
		return nil
	})
	g.Go(func() error {
		every(ctx, time.Minute, func() bool {
			n.try(ctx, "old messages could not be forgotten", func(ctx context.Context) error { return n.cfg.Store.ForgetMessages(ctx, n.cfg.Now().Add(-forgetAfter)) })
			return false
		})
		return nil
	})
	return g.Wait()
}

// try does something for a minute at most, and logs what keeps it from that: a database
// that never answers, too.
func (n *Notifier) try(ctx context.Context, what string, do func(context.Context) error) bool {
	inTime, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := do(inTime)
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.WarnContext(ctx, "notifications wait: "+what, "error", err)
	}
	return err == nil
}

// every does something again and again until that is done or ctx is.
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
