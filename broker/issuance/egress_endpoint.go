package issuance

import (
	"context"
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

// NewEgressEndpoint returns a new egress endpoint for a task of who; the task must be open. The caller
// sets up its socket, and calls EndpointOpened before the sandbox can use it.
func (eu *EgressUse) NewEgressEndpoint(ctx context.Context, who broker.Principal, taskID string, spec broker.EgressEndpointSpec) (broker.EgressEndpoint, error) {
	switch {
	case spec.Tool != "" && !kindForm.MatchString(spec.Tool):
		return broker.EgressEndpoint{}, broker.E(broker.Invalid, "tool must be 1 to 64 of a-z 0-9 . _ -.", nil)
	case spec.ID != "" && !broker.ValidID(broker.EndpointPrefix, spec.ID):
		return broker.EgressEndpoint{}, broker.E(broker.Invalid, "id must be the id of an egress endpoint of this task: egr_ and 32 of 0-9 a-f. Leave it out to open another endpoint.", nil)
	}
	t, err := eu.tasks.Mine(ctx, who, broker.Certain, taskID)
	switch {
	case err != nil:
		return broker.EgressEndpoint{}, err
	case t.State == broker.TaskClosed:
		return broker.EgressEndpoint{}, kernel.ClosedError(t)
	case eu.TaskOver(t.ID, t.Ancestors...):
		return broker.EgressEndpoint{}, kernel.ClosedError(broker.Task{}) // the cause is not recorded yet
	case t.State != broker.TaskOpen:
		return broker.EgressEndpoint{}, broker.E(broker.Conflict, "The task is paused. Resume it first.", broker.ErrTaskPaused)
	}
	id := spec.ID
	if id == "" {
		id = broker.NewID(broker.EndpointPrefix)
	}
	return broker.EgressEndpoint{ID: id, TaskID: t.ID, Tool: spec.Tool, State: broker.EndpointWaiting, ExpiresAt: t.Deadline, Above: t.Ancestors}, nil
}

// MayOpenEndpoint returns an error unless the principal may change the egress endpoints of a task.
func (eu *EgressUse) MayOpenEndpoint(ctx context.Context, who broker.Principal, taskID string) error {
	_, err := eu.tasks.Mine(ctx, who, broker.Certain, taskID)
	return err
}

// TaskOver reports whether this process knows that a task, or an ancestor of it, has ended.
func (eu *EgressUse) TaskOver(taskID string, above ...string) bool {
	over := func(id string) bool { return eu.revoked.Has(id, eu.clock.Now()) }
	return over(taskID) || slices.ContainsFunc(above, over)
}

// endpointData is the data of audit entries about an egress endpoint.
type endpointData struct {
	Endpoint  string                  `json:"box"` // stored entries have the former name
	Tool      string                  `json:"tool,omitempty"`
	Identity  broker.EndpointIdentity `json:"identity,omitempty"`
	Namespace uint64                  `json:"network_namespace,omitempty"`
	Why       string                  `json:"why,omitempty"`
}

// EndpointOpened records that who opened an egress endpoint. After an error the endpoint must not be
// used (I11).
func (eu *EgressUse) EndpointOpened(ctx context.Context, who broker.Principal, x broker.EgressEndpoint) error {
	return eu.recordEndpoint(ctx, eu.log.TaskEntry(audit.EndpointOpened, who.ID, x.TaskID, endpointData{Endpoint: x.ID, Tool: x.Tool, Identity: x.Identity}))
}

// EndpointRegistered records the network namespace of the endpoint's sandbox.
func (eu *EgressUse) EndpointRegistered(ctx context.Context, who broker.Principal, x broker.EgressEndpoint, namespace uint64) error {
	return eu.recordEndpoint(ctx, eu.log.TaskEntry(audit.EndpointRegistered, who.ID, x.TaskID, endpointData{Endpoint: x.ID, Tool: x.Tool, Namespace: namespace}))
}

func (eu *EgressUse) recordEndpoint(ctx context.Context, e audit.Entry) error {
	if err := eu.store.Append(ctx, broker.Record{Entries: []audit.Entry{e}}); err != nil {
		return broker.StoreError(err)
	}
	return nil
}

// EndpointGone records that an egress endpoint was closed. A failure to record it does not delay the
// close.
func (eu *EgressUse) EndpointGone(ctx context.Context, actor string, x broker.EgressEndpoint, why string) {
	eu.log.Note(ctx, eu.log.TaskEntry(audit.EndpointClosed, actor, x.TaskID, endpointData{Endpoint: x.ID, Tool: x.Tool, Why: why}))
}

// EndpointStranger records a connection to an endpoint's socket from outside its sandbox, at most
// once a minute for each task.
func (eu *EgressUse) EndpointStranger(ctx context.Context, x broker.EgressEndpoint, namespace uint64, why string) {
	eu.log.NoteSeldom(ctx, eu.log.TaskEntry(audit.EndpointStranger, kernel.Self, x.TaskID, endpointData{Endpoint: x.ID, Tool: x.Tool, Namespace: namespace, Why: why}))
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

// Credentialless returns the caller's credential-less leases, newest first: requests use them without a
// placeholder. Use checks whether one may be used now.
func (eu *EgressUse) Credentialless(ctx context.Context, c broker.Caller) ([]broker.Usable, error) {
	// A lease with an Upstream has a credential, which only requests with its placeholder use.
	ls, err := eu.liveOf(ctx, c, func(l broker.Lease) bool {
		p, known := eu.providers[l.Provider]
		return known && p.Driver.Traits().Credentialless && l.Upstream == nil && eu.issuer.byEgress(l)
	})
	if err != nil {
		return nil, err
	}
	var out []broker.Usable
	for _, l := range ls {
		if injector, is := eu.providers[l.Provider].Driver.(provider.Injector); is {
			out = append(out, broker.Usable{Provider: l.Provider, Injector: injector, Credentialless: true, Target: eu.upstream.useTarget(l, secret.Secret{})})
		}
	}
	return out, nil
}

// theirs reports whether a lease belongs to the caller's task and tool.
func theirs(l broker.Lease, c broker.Caller) bool {
	return l.TaskID == c.TaskID && (l.Tool == "" || c.Tool == "" || l.Tool == c.Tool)
}
