package revocation

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Cut registers the listener for all ends. Call it once, before any request is served.
func (f *Feeds) Cut(c kernel.RevocationListener) { f.Cuts.RevocationListener.Store(&c) }

// Ended refuses a task, or a lease whose token was not returned, in this process from now on,
// and closes the connections that depend on it.
func (f *Feeds) Ended(id string, until time.Time) {
	f.Revoked.Add(id, until)
	f.Cuts.Tell(func(c kernel.RevocationListener) { c.End(id) })
}

// endedInUse is Ended for a lease that may have been used.
func (f *Feeds) endedInUse(taskID, id string, until time.Time) {
	first := f.Revoked.Add(id, until)
	f.Cuts.Tell(func(c kernel.RevocationListener) {
		if c.End(id); first {
			c.MayHaveOpened(taskID, id)
		}
	})
}

// heard applies an event that any replica published.
func (f *Feeds) heard(ctx context.Context, e broker.Event) {
	switch e.LeaseID {
	case "":
		f.Ended(e.TaskID, e.Until)
	case broker.PauseMark:
		f.paused(ctx, e.TaskID)
	default:
		f.endedInUse(e.TaskID, e.LeaseID, e.Until)
	}
}

// paused closes the connections of a task, unless it has been resumed: a reader that starts
// anew gets old pauses from the feed again.
func (f *Feeds) paused(ctx context.Context, taskID string) {
	live, err := f.LiveStore.Admit(ctx, broker.Admission{TaskID: taskID})
	if err == nil && live.State == broker.TaskOpen {
		return
	}
	f.Cuts.Tell(func(c kernel.RevocationListener) { c.Pause(taskID) })
}

// FollowReplicas applies the ends that other replicas published.
func (f *Feeds) FollowReplicas(ctx context.Context) error {
	cursor := ""
	for ctx.Err() == nil {
		asked := time.Now()
		evs, next, err := f.LiveStore.Follow(ctx, cursor, 1000, broker.FeedWait)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			f.Logger.WarnContext(ctx, "the revocation feed is unavailable", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for _, e := range evs {
			f.heard(ctx, e)
		}
		f.Cuts.Feed.Heard(asked)
		cursor = next
	}
	return ctx.Err()
}

// Feeds publishes revocations to listeners in this process and to resource servers.
type Feeds struct {
	store     broker.Store
	LiveStore broker.LiveStore
	Logger    *slog.Logger
	providers map[string]broker.Provider
	began     time.Time
	Cuts      *kernel.Disconnects
	live      *kernel.LiveState
	Revoked   *kernel.RevokedSet

	Clock *kernel.Timekeeper
}

// maxFollowed is the largest number of events in one response.
const maxFollowed = 1000

// Follow reads the revocation feed, up to limit events after cursor, and waits up to wait for
// the first. Operators and auditors read all of it, a resource server the events of its
// audiences. Clients rely on this: fewer events than limit mean that there are no more.
func (f *Feeds) Follow(ctx context.Context, who broker.Principal, cursor string, limit int, wait time.Duration) ([]broker.Event, string, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleResourceServer, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return nil, "", err
	}
	if f.live.Incomplete.Load() {
		return nil, "", broker.StoreError(broker.ErrLost)
	}
	limit = min(max(limit, 1), maxFollowed)
	r := follower{b: f, who: who}
	var out []broker.Event
	for end, ask := time.Now().Add(wait), limit; ; {
		evs, next, err := f.LiveStore.Follow(ctx, cursor, ask, wait)
		if err != nil {
			return nil, "", broker.StoreError(err)
		}
		heard, n := r.hears(ctx, evs), 0
		more := slices.IndexFunc(heard, func(is bool) bool {
			if is {
				n++
			}
			return n > limit-len(out)
		})
		if more > 0 { // this one exceeds limit: read again up to the event before it, for its cursor
			ask, wait = more, 0
			continue
		}
		for i, e := range evs {
			if heard[i] {
				out = append(out, e)
			}
		}
		last := len(evs) < ask
		cursor, ask, wait = next, limit, max(time.Until(end), 0)
		if len(out) > 0 {
			wait = 0
		}
		if len(out) == limit || last && wait == 0 {
			return out, cursor, nil
		}
	}
}

// follower is a reader of the feed.
type follower struct {
	b     *Feeds
	who   broker.Principal
	blind bool // the database does not answer
}

// hears reports for each event whether the follower gets it. Ends do not wait for the database:
// while it does not answer, or does not know the task or lease, every follower gets the event.
func (f *follower) hears(ctx context.Context, evs []broker.Event) []bool {
	heard := make([]bool, len(evs))
	all := f.who.HearsAll()
	var leases, tasks []string
	for i, e := range evs {
		heard[i] = e.LeaseID != broker.PauseMark && (all || e.LeaseID != e.TaskID) // a pause revokes nothing, and a token for the API is for ebb
		switch {
		case all || !heard[i]:
		case e.LeaseID == "":
			tasks = append(tasks, e.TaskID)
		default:
			leases = append(leases, e.LeaseID)
		}
	}
	foreign := map[string]bool{}
	if len(leases) > 0 {
		f.look(ctx, func(ctx context.Context) error {
			ls, err := f.b.store.Leases(ctx, broker.LeaseFilter{IDs: leases, Now: f.b.Clock.Now(), Page: broker.Page{Limit: maxFollowed}})
			for _, l := range ls {
				foreign[l.ID] = !slices.Contains(f.who.Audiences, l.Resource)
			}
			return err
		})
	}
	if len(tasks) > 0 {
		f.look(ctx, func(ctx context.Context) error {
			ts, err := f.b.store.Tasks(ctx, broker.TaskFilter{IDs: tasks, Page: broker.Page{Limit: maxFollowed}})
			for _, t := range ts {
				foreign[t.ID] = !f.mayHold(ctx, t)
			}
			return err
		})
	}
	for i, e := range evs {
		id := e.LeaseID
		if id == "" {
			id = e.TaskID
		}
		heard[i] = heard[i] && !foreign[id]
	}
	return heard
}

// look reads the database, unless an earlier read failed.
func (f *follower) look(ctx context.Context, ask func(context.Context) error) {
	if f.blind {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	f.blind = ask(ctx) != nil
}

// mayHold reports whether a task may hold a token for one of the follower's audiences. Its
// ceiling decides, which also limits mints under way and delegated tasks. The resources of its
// leases count too if the ceiling is not enough: for a task older than this process, because its
// providers may have been configured differently, and for a provider that only other replicas
// have, because their configuration is newer.
func (f *follower) mayHold(ctx context.Context, t broker.Task) bool {
	b, enough := f.b, t.OpenedAt.After(f.b.began.Add(broker.ClockSkew)) // another replica may have opened it, by its own clock
	for _, name := range t.Ceiling.Providers() {
		p, known := b.providers[name]
		if known && slices.Contains(f.who.Audiences, p.Resource) {
			return true
		}
		enough = enough && known
	}
	if len(f.who.Audiences) == 0 || enough {
		return false
	}
	held := true
	f.look(ctx, func(ctx context.Context) error {
		ls, err := b.store.Leases(ctx, broker.LeaseFilter{Tree: t.ID, Resources: f.who.Audiences, Now: b.Clock.Now(), Page: broker.Page{Limit: 1}})
		held = err != nil || len(ls) > 0
		return err
	})
	return held
}
