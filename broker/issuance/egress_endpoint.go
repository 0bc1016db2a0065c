package issuance

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// EgressUse decides for the egress proxy whether a caller may use a credential now, and records
// the use in the audit log.
type EgressUse struct {
	store       broker.Store
	liveStore   broker.LiveStore
	limits      broker.Limits
	providers   map[string]broker.Provider
	sealer      broker.Sealer
	transcripts *transcript.Store
	m           *kernel.Metrics
	noted       *expirable.LRU[string, time.Time]
	revoked     *kernel.RevokedSet
	roots       *expirable.LRU[string, string]
	used        *expirable.LRU[string, broker.Lease]

	admission *kernel.Admitter
	callers   callers
	clock     *kernel.Timekeeper
	control   control
	issuer    *TokenIssuer
	log       *kernel.Recorder
	tasks     *TaskOpener
	upstream  *ThirdParties

	refusals refusals
}

// boxForm matches the id of an egress endpoint.
var boxForm = regexp.MustCompile(`^` + broker.BoxPrefix + `[0-9a-f]{32}$`)

// NewBox returns a new egress endpoint for a task of who; the task must be open. The caller
// sets up its socket, and calls BoxOpened before the sandbox can use it.
func (eu *EgressUse) NewBox(ctx context.Context, who broker.Principal, taskID string, spec broker.BoxSpec) (broker.Box, error) {
	switch {
	case spec.Tool != "" && !kindForm.MatchString(spec.Tool):
		return broker.Box{}, broker.E(broker.Invalid, "tool must be 1 to 64 of a-z 0-9 . _ -.", nil)
	case spec.ID != "" && !boxForm.MatchString(spec.ID):
		return broker.Box{}, broker.E(broker.Invalid, "id must be the id of a box of this task: box_ and 32 of 0-9 a-f. Leave it out to open another box.", nil)
	}
	t, err := eu.tasks.Mine(ctx, who, broker.Certain, taskID)
	switch {
	case err != nil:
		return broker.Box{}, err
	case t.State == broker.TaskClosed || eu.TaskOver(t.ID, t.Ancestors...):
		return broker.Box{}, kernel.ClosedError()
	case t.State != broker.TaskOpen:
		return broker.Box{}, broker.E(broker.Conflict, "The task is paused. Resume it first.", broker.ErrTaskPaused)
	}
	id := spec.ID
	if id == "" {
		id = broker.NewID(broker.BoxPrefix)
	}
	return broker.Box{ID: id, TaskID: t.ID, Tool: spec.Tool, State: broker.BoxWaiting, ExpiresAt: t.Deadline, Above: t.Ancestors}, nil
}

// MayBox returns an error unless the principal may change the egress endpoints of a task.
func (eu *EgressUse) MayBox(ctx context.Context, who broker.Principal, taskID string) error {
	_, err := eu.tasks.Mine(ctx, who, broker.Certain, taskID)
	return err
}

// TaskOver reports whether this process knows that a task, or an ancestor of it, has ended.
func (eu *EgressUse) TaskOver(taskID string, above ...string) bool {
	over := func(id string) bool { return eu.revoked.Has(id, eu.clock.Now()) }
	return over(taskID) || slices.ContainsFunc(above, over)
}

// boxed is the data of audit entries about an egress endpoint.
type boxed struct {
	Box       string             `json:"box"`
	Tool      string             `json:"tool,omitempty"`
	Identity  broker.BoxIdentity `json:"identity,omitempty"`
	Namespace uint64             `json:"network_namespace,omitempty"`
	Why       string             `json:"why,omitempty"`
}

// BoxOpened records that who opened an egress endpoint. After an error the endpoint must not be
// used (I11).
func (eu *EgressUse) BoxOpened(ctx context.Context, who broker.Principal, x broker.Box) error {
	return eu.recordBox(ctx, eu.log.TaskEntry(audit.BoxOpened, who.ID, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Identity: x.Identity}))
}

// BoxRegistered records the network namespace of the endpoint's sandbox.
func (eu *EgressUse) BoxRegistered(ctx context.Context, who broker.Principal, x broker.Box, namespace uint64) error {
	return eu.recordBox(ctx, eu.log.TaskEntry(audit.BoxRegistered, who.ID, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Namespace: namespace}))
}

func (eu *EgressUse) recordBox(ctx context.Context, e audit.Entry) error {
	if err := eu.store.Append(ctx, broker.Record{Entries: []audit.Entry{e}}); err != nil {
		return broker.StoreError(err)
	}
	return nil
}

// BoxGone records that an egress endpoint was closed. A failure to record it does not delay the
// close.
func (eu *EgressUse) BoxGone(ctx context.Context, actor string, x broker.Box, why string) {
	eu.log.Note(ctx, eu.log.TaskEntry(audit.BoxClosed, actor, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Why: why}))
}

// BoxStranger records a connection to an endpoint's socket from outside its sandbox, at most
// once a minute for each task.
func (eu *EgressUse) BoxStranger(ctx context.Context, x broker.Box, namespace uint64, why string) {
	eu.log.NoteSeldom(ctx, eu.log.TaskEntry(audit.BoxStranger, kernel.Self, x.TaskID, boxed{Box: x.ID, Tool: x.Tool, Namespace: namespace, Why: why}))
}

// Self is the actor of audit entries about actions that ebb takes by itself.
const Self = kernel.Self

// Injectable returns the live credentials of a caller that egress can add to requests, newest
// first. A helper in the sandbox chooses from them.
func (eu *EgressUse) Injectable(ctx context.Context, c broker.Caller) ([]broker.Lease, error) {
	return eu.liveOf(ctx, c, func(l broker.Lease) bool {
		_, known := eu.providers[l.Provider]
		return known && eu.issuer.byEgress(l)
	})
}

// liveOf returns the live leases of a caller for which is holds, newest first. Use checks
// whether one may be used now.
func (eu *EgressUse) liveOf(ctx context.Context, c broker.Caller, is func(broker.Lease) bool) (out []broker.Lease, err error) {
	now := eu.clock.Now()
	page := broker.Page{Limit: maxLive, Desc: true}
	for range maxPages {
		ls, err := eu.store.Leases(ctx, broker.LeaseFilter{TaskID: c.TaskID, State: broker.LeaseLive, Now: now, Page: page})
		if err != nil {
			return nil, broker.StoreError(err)
		}
		for _, l := range ls {
			if is(l) && theirs(l, c) && now.Before(l.ExpiresAt) && !eu.revoked.Has(l.ID, now) && !eu.revoked.Has(l.TaskID, now) {
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

// maxLive bounds the returned leases, maxPages the pages that are read. With 25 pages, one
// tool's many leases do not hide those of other tools.
const (
	maxLive  = 200
	maxPages = 25
)

// Bare returns the caller's credential-less leases, newest first: requests use them without a
// placeholder. Use checks whether one may be used now.
func (eu *EgressUse) Bare(ctx context.Context, c broker.Caller) ([]broker.Usable, error) {
	// A lease with an Upstream has a credential, which only requests with its placeholder use.
	ls, err := eu.liveOf(ctx, c, func(l broker.Lease) bool {
		p, known := eu.providers[l.Provider]
		return known && p.Driver.Traits().Bare && l.Upstream == nil && eu.issuer.byEgress(l)
	})
	if err != nil {
		return nil, err
	}
	var out []broker.Usable
	for _, l := range ls {
		if injector, is := eu.providers[l.Provider].Driver.(provider.Injector); is {
			out = append(out, broker.Usable{Provider: l.Provider, Injector: injector, Bare: true, Target: eu.upstream.TargetOf(l, secret.Secret{})})
		}
	}
	return out, nil
}

// theirs reports whether a lease belongs to the caller's task and tool.
func theirs(l broker.Lease, c broker.Caller) bool {
	return l.TaskID == c.TaskID && (l.Tool == "" || c.Tool == "" || l.Tool == c.Tool)
}
