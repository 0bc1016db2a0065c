package broker

import (
	"context"
	"regexp"
	"slices"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// BoxState is where a box is in its life.
type BoxState string

// Box states.
const (
	BoxWaiting BoxState = "waiting" // its network namespace is not known yet: nobody is let in
	BoxOpen    BoxState = "open"    //
	BoxClosed  BoxState = "closed"  // everything of it is cut
)

// BoxIdentity is how the egress proxy knows that a connection is of a box.
type BoxIdentity string

// Box identities, the stronger first.
const (
	BoxByKernel BoxIdentity = "kernel" // the process that connects is in the box's network namespace
	BoxBySocket BoxIdentity = "socket" // it has reached the box's socket
	BoxByRunner BoxIdentity = "runner" // its runner, on another machine, has handed it on with its own key
)

// BoxSpec is what a runner asks for.
type BoxSpec struct {
	Tool string `json:"tool,omitempty"` // "" = any of the task's
	// Identity is BoxByRunner for a box that is not on ebb's machine; "" = it is, and is known as ebb
	// knows its boxes.
	Identity BoxIdentity `json:"identity,omitempty"`
	// Forward: the socket that the sandbox connects to is the runner's. On ebb's machine the runner
	// passes each connection on through Box.Socket. BoxByRunner implies it.
	Forward bool `json:"forward,omitempty"`
	// ID is that of a box of this task that was open before ebb restarted. The box is opened anew, with
	// the CA that its sandbox trusts. "" = another box.
	ID string `json:"id,omitempty"`
}

// boxForm is what the id of a box looks like.
var boxForm = regexp.MustCompile(`^` + boxPrefix + `[0-9a-f]{32}$`)

// Box is a way out of a sandbox, for one tool of one task. It is open in one process and
// on one machine, and ends with its task.
type Box struct {
	ID        string      `json:"id"` // "box_..."
	TaskID    string      `json:"task_id"`
	Tool      string      `json:"tool,omitempty"` // "" = any of the task's
	Socket    string      `json:"socket"`         // path of a unix socket that speaks HTTP, in a directory of the box's alone; with BoxSpec.Forward, where its connections are passed on; "" = the box is on another machine
	CA        string      `json:"ca"`             // PEM of the CA that vouches for what is in tunnels, in this box alone
	Identity  BoxIdentity `json:"identity"`
	State     BoxState    `json:"state"`
	ExpiresAt time.Time   `json:"expires_at"` // deadline of the task

	Above []string `json:"-"` // see Caller
}

// Caller is who sends through the box.
func (x Box) Caller() Caller { return Caller{TaskID: x.TaskID, Tool: x.Tool, Above: x.Above} }

// NewBox begins a box for a task of who: it must be open. Whoever makes the rest of it
// calls BoxOpened before anybody can use it.
func (b *Broker) NewBox(ctx context.Context, who Principal, taskID string, spec BoxSpec) (Box, error) {
	switch {
	case spec.Tool != "" && !kindForm.MatchString(spec.Tool):
		return Box{}, E(Invalid, "tool must be 1 to 64 of a-z 0-9 . _ -.", nil)
	case spec.ID != "" && !boxForm.MatchString(spec.ID):
		return Box{}, E(Invalid, "id must be that of a box of this task: box_ and 32 of 0-9 a-f. Leave it out for another box.", nil)
	}
	t, err := b.mine(ctx, who, certain, taskID)
	switch {
	case err != nil:
		return Box{}, err
	case t.State == TaskClosed || b.TaskOver(t.ID, t.Ancestors...):
		return Box{}, closedError()
	case t.State != TaskOpen:
		return Box{}, E(Conflict, "The task is paused. Resume it first.", ErrTaskPaused)
	}
	id := spec.ID
	if id == "" {
		id = newID(boxPrefix)
	}
	return Box{ID: id, TaskID: t.ID, Tool: spec.Tool, State: BoxWaiting, ExpiresAt: t.Deadline, Above: t.Ancestors}, nil
}

// MayBox says whether who may change the boxes of a task.
func (b *Broker) MayBox(ctx context.Context, who Principal, taskID string) error {
	_, err := b.mine(ctx, who, certain, taskID)
	return err
}

// TaskOver reports whether this process knows that a task, or one above it, is over.
func (b *Broker) TaskOver(taskID string, above ...string) bool {
	over := func(id string) bool { return b.tombs.has(id, b.now()) }
	return over(taskID) || slices.ContainsFunc(above, over)
}

// boxed is the data of entries about a box.
type boxed struct {
	Box       string      `json:"box"`
	Tool      string      `json:"tool,omitempty"`
	Identity  BoxIdentity `json:"identity,omitempty"`
	Namespace uint64      `json:"network_namespace,omitempty"`
	Why       string      `json:"why,omitempty"`
}

// BoxOpened records that who opened a box. Without the record there is no box (I11).
func (b *Broker) BoxOpened(ctx context.Context, who Principal, x Box) error {
	return b.recordBox(ctx, b.taskEntry(audit.BoxOpened, who.ID, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Identity: x.Identity}))
}

// BoxRegistered records which network namespace is the box's.
func (b *Broker) BoxRegistered(ctx context.Context, who Principal, x Box, namespace uint64) error {
	return b.recordBox(ctx, b.taskEntry(audit.BoxRegistered, who.ID, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Namespace: namespace}))
}

func (b *Broker) recordBox(ctx context.Context, e audit.Entry) error {
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{e}}); err != nil {
		return unavailable(err)
	}
	return nil
}

// BoxGone records the end of a box, which nothing holds up.
func (b *Broker) BoxGone(ctx context.Context, actor string, x Box, why string) {
	b.note(ctx, b.taskEntry(audit.BoxClosed, actor, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Why: why}))
}

// BoxStranger records that somebody who is not of a box came to its socket; once a
// minute for each task.
func (b *Broker) BoxStranger(ctx context.Context, x Box, namespace uint64, why string) {
	b.noteSeldom(ctx, b.taskEntry(audit.BoxStranger, self, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Namespace: namespace, Why: why}))
}

// Self is the actor of what ebb does without being asked.
const Self = self

// Injectable are the live credentials of a caller that egress can add to requests, the
// newest first: what a helper in a box can choose from.
func (b *Broker) Injectable(ctx context.Context, c Caller) ([]Lease, error) {
	return b.liveOf(ctx, c, func(l Lease) bool {
		_, known := b.cfg.Providers[l.Provider]
		return known && b.byEgress(l)
	})
}

// liveOf are the live leases of a caller that are for something, the newest first. Whether one
// may be used now says its use.
func (b *Broker) liveOf(ctx context.Context, c Caller, is func(Lease) bool) (out []Lease, err error) {
	now := b.now()
	page := Page{Limit: maxLive, Desc: true}
	for range maxPages {
		ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{TaskID: c.TaskID, State: LeaseLive, Now: now, Page: page})
		if err != nil {
			return nil, unavailable(err)
		}
		for _, l := range ls {
			if is(l) && theirs(l, c) && now.Before(l.ExpiresAt) && !b.tombs.has(l.ID, now) && !b.tombs.has(l.TaskID, now) {
				out = append(out, l)
			}
		}
		if len(ls) < maxLive || len(out) >= maxLive {
			break
		}
		page.After = ls[len(ls)-1].ID
	}
	return out[:min(len(out), maxLive)], nil
}

// maxLive bounds those that are found, maxPages those that are looked at: what one tool has asked for
// leaves the others theirs.
const (
	maxLive  = 200
	maxPages = 25
)

// Bare are the leases of a caller by which requests leave that hold no placeholder, the
// newest first. Whether one may be used now is Use's to say.
func (b *Broker) Bare(ctx context.Context, c Caller) ([]Usable, error) {
	// What has an Upstream has a credential, which is added to what names it alone.
	ls, err := b.liveOf(ctx, c, func(l Lease) bool {
		p, known := b.cfg.Providers[l.Provider]
		return known && p.Driver.Traits().Bare && l.Upstream == nil && b.byEgress(l)
	})
	if err != nil {
		return nil, err
	}
	var out []Usable
	for _, l := range ls {
		if injector, is := b.cfg.Providers[l.Provider].Driver.(provider.Injector); is {
			out = append(out, Usable{Provider: l.Provider, Injector: injector, Bare: true, Target: b.targetOf(l, provider.Secret{})})
		}
	}
	return out, nil
}

// theirs reports whether a lease is one of the caller's.
func theirs(l Lease, c Caller) bool {
	return l.TaskID == c.TaskID && (l.Tool == "" || c.Tool == "" || l.Tool == c.Tool)
}
