package issuance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes"
)

// WithoutTranscript replaces the transcript's id when a rule lets a request pass without a
// transcript.
const WithoutTranscript = "none"

// maxTaintHost is the number of bytes of a host that fit into the name of a taint source.
const maxTaintHost = 63 - len("egress/")

// UseAllowed records that a credential is about to be added to a request, and adds the amounts of the
// request to the sums of its task. After an error the request must not be sent (I11). If third parties
// can write the response, the task is tainted first.
func (eu *EgressUse) UseAllowed(ctx context.Context, c broker.Caller, u broker.Usable, x broker.Exchange) error {
	if x.Untrusted {
		host, _, _ := strings.Cut(x.Host, ":")
		host = host[:min(len(host), maxTaintHost)]
		if err := eu.taintBy(ctx, u.Task, "egress/"+host); err != nil {
			return err
		}
	}
	spends, err := u.Spends(c.Root(), x.Content, x.Method)
	if err != nil {
		return broker.E(broker.Denied, "The lease does not allow the request: "+err.Error()+".", err)
	}
	e := eu.log.TaskEntry(audit.EgressAllowed, broker.SandboxID(c.TaskID), c.TaskID, x)
	e.LeaseID = u.Target.LeaseID
	return eu.spend(ctx, e, spends)
}

// Statement records that a statement of a session, which may change something, is about to be sent,
// and adds spends to the sums of its task. After an error the caller must not send it (I11).
func (eu *EgressUse) Statement(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange, spends []broker.Spending) error {
	e := eu.log.TaskEntry(audit.EgressStatement, broker.SandboxID(c.TaskID), c.TaskID, x)
	e.LeaseID = leaseID
	return eu.spend(ctx, e, spends)
}

// spend writes an entry and adds its amounts, or does neither.
func (eu *EgressUse) spend(ctx context.Context, e audit.Entry, spends []broker.Spending) error {
	err := eu.store.Append(ctx, broker.Record{Spend: spends, Entries: []audit.Entry{e}})
	switch {
	case errors.Is(err, broker.ErrCap):
		return broker.E(broker.Denied, "The lease does not allow the request: requests at the same moment have used up its approval or its limit of amounts.", err)
	case err != nil:
		return broker.StoreError(err)
	}
	return nil
}

// UseCompleted records how allowed requests ended, for every kind of end.
func (eu *EgressUse) UseCompleted(ctx context.Context, ends ...broker.EndedExchange) {
	entries := make([]audit.Entry, len(ends))
	for i, x := range ends {
		entries[i] = eu.log.TaskEntry(audit.EgressCompleted, broker.SandboxID(x.Caller.TaskID), x.Caller.TaskID, x.Exchange)
		entries[i].LeaseID = x.LeaseID
	}
	eu.log.NoteLate(ctx, entries...)
}

// UseDenied records that a request was not sent. leaseID is the id that the request named, ""
// when it named nothing like an id.
func (eu *EgressUse) UseDenied(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange) {
	leftOut, now := eu.refusals.count(c.TaskID)
	if !now {
		eu.m.Unrecorded.Inc()
		return
	}
	e := eu.log.TaskEntry(audit.EgressDenied, broker.SandboxID(c.TaskID), c.TaskID, struct {
		broker.Exchange
		LeftOut int64 `json:"left_out,omitempty"` // denials since the previous entry that were not recorded
	}{x, leftOut})
	if broker.ValidID(broker.LeasePrefix, leaseID) {
		e.LeaseID = leaseID
	}
	eu.log.Note(ctx, e)
}

// taintBy taints a task and its ancestors with a source that it is about to read.
func (eu *EgressUse) taintBy(ctx context.Context, t broker.Task, source string) error {
	key := "taint " + t.ID + " " + source
	if _, known := eu.noted.Get(key); known {
		return nil
	}
	if err := eu.control.TaintTree(ctx, broker.SandboxID(t.ID), t, []string{source}); err != nil {
		return err
	}
	eu.noted.Add(key, eu.clock.Now())
	return nil
}

// refusals bounds how many denials of one task are recorded one by one: a sandbox could cause
// any number of them (I12).
type refusals struct {
	mu sync.Mutex
	of map[string]*refused
}

type refused struct {
	pace    *rate.Limiter
	leftOut int64
}

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 40
	maxRefusing       = 8192 // tasks; at this number all of them are forgotten
)

// count reports whether a denial is recorded now, and how many were not recorded since the
// last.
func (r *refusals) count(taskID string) (leftOut int64, now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) >= maxRefusing || r.of == nil {
		r.of = map[string]*refused{}
	}
	t := r.of[taskID]
	if t == nil {
		t = &refused{pace: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)}
		r.of[taskID] = t
	}
	if !t.pace.Allow() {
		t.leftOut++
		return 0, false
	}
	leftOut, t.leftOut = t.leftOut, 0
	return leftOut, true
}

// MayReadTranscripts returns an error unless the principal may read transcripts of requests through
// egress. They hold the content of those requests.
func (eu *EgressUse) MayReadTranscripts(who broker.Principal) error {
	return broker.Allow(who, broker.Certain, broker.RoleAuditor)
}

// Transcripts lists the transcripts of this process, without their content.
func (eu *EgressUse) Transcripts(who broker.Principal, f transcript.Filter) ([]transcript.Head, error) {
	if err := eu.MayReadTranscripts(who); err != nil {
		return nil, err
	}
	if eu.transcripts == nil {
		return nil, nil
	}
	list, err := eu.transcripts.List(f)
	if err != nil {
		return nil, transcriptsUnreadable(err)
	}
	return list, nil
}

// TranscriptCount returns how many transcripts a filter selects on all of its pages.
func (eu *EgressUse) TranscriptCount(who broker.Principal, f transcript.Filter) (int, error) {
	if err := eu.MayReadTranscripts(who); err != nil {
		return 0, err
	}
	if eu.transcripts == nil {
		return 0, nil
	}
	n, err := eu.transcripts.Count(f)
	if err != nil {
		return 0, transcriptsUnreadable(err)
	}
	return n, nil
}

// Transcript returns one transcript with its content. The access is in the audit log first; if
// that write fails, the transcript is not returned (I11). Every page and API that shows a
// transcript must get it from here.
func (eu *EgressUse) Transcript(ctx context.Context, who broker.Principal, id string) (transcript.Transcript, error) {
	var none transcript.Transcript
	if err := eu.MayReadTranscripts(who); err != nil {
		return none, err
	}
	t, err := none, transcript.ErrNotFound
	if eu.transcripts != nil {
		t, err = eu.transcripts.Read(id)
	}
	switch {
	case errors.Is(err, transcript.ErrNotFound):
		return none, broker.E(broker.NotFound, "There is no such transcript on this replica, or it was erased after its retention time.", err)
	case errors.Is(err, transcript.ErrTorn):
		return none, broker.E(broker.NotFound, "The file of this transcript is incomplete, because the machine stopped while it was written. The audit log has the entries of the request.", err)
	case err != nil:
		return none, transcriptsUnreadable(err)
	}
	e := eu.log.TaskEntry(audit.TranscriptRead, who.ID, t.TaskID, map[string]string{"transcript": t.ID})
	e.LeaseID = t.LeaseID
	if err := eu.store.Append(ctx, broker.Record{Entries: []audit.Entry{e}}); err != nil {
		return none, broker.StoreError(err)
	}
	return t, nil
}

func transcriptsUnreadable(err error) error {
	return &broker.Error{Kind: broker.Unavailable, Public: "Transcripts cannot be read at the moment; try again shortly.", Cause: err, RetryAfter: 5 * time.Second}
}

// TranscriptOf returns the id of the transcript that an entry names: that of its request, or
// the one that was read. "" = none.
func TranscriptOf(e audit.Entry) string {
	var x struct {
		Transcript string `json:"transcript"`
	}
	switch e.Kind {
	case audit.EgressAllowed, audit.EgressCompleted, audit.TranscriptRead:
		if json.Unmarshal(e.Data, &x) == nil && transcript.ValidID(x.Transcript) {
			return x.Transcript
		}
	}
	return ""
}

// maxNeeded bounds the scopes that a refusal names.
const maxNeeded = 3

// NeededFor returns at most three scopes that the caller's task may ask for, each of which
// alone would let a request pass egress; read-only scopes first. The providers match the
// request as they match it against a lease. upgrade: the request must be able to become a
// WebSocket.
func (eu *EgressUse) NeededFor(ctx context.Context, c broker.Caller, r *http.Request, upgrade bool) ([]scopes.Scope, error) {
	return eu.needed(ctx, c, func(name string, d provider.Driver) []scopes.Scope {
		i, is := d.(provider.Injector)
		if !is {
			return nil
		}
		return slices.DeleteFunc(i.ScopesFor(name, r), func(s scopes.Scope) bool {
			set, err := scopes.NewSet(s)
			u, can := d.(provider.Upgrader)
			return upgrade && (err != nil || !can || !u.Upgrades(r, provider.Target{Scopes: set}))
		})
	})
}

// NeededAt is NeededFor for a session at an endpoint.
func (eu *EgressUse) NeededAt(ctx context.Context, c broker.Caller, at provider.Endpoint) ([]scopes.Scope, error) {
	return eu.needed(ctx, c, func(name string, d provider.Driver) []scopes.Scope {
		if connector, is := d.(provider.Connector); is {
			return connector.ScopesAt(name, at)
		}
		return nil
	})
}

// within returns a suggested scope if a ceiling covers it. If only the bodies of requests decide about
// the scope, within returns the part of it that the ceiling covers.
func within(ceiling scopes.Set, p broker.Provider, s scopes.Scope) []scopes.Scope {
	set, err := scopes.NewSet(s)
	switch {
	case err != nil:
		return nil
	case ceiling.Covers(set):
		return []scopes.Scope{s}
	case judges(p, set):
		return ceiling.Narrow(set).Scopes()
	}
	return nil
}

// needed returns, of the scopes that drivers name, those that the task may ask for and egress
// can deliver.
func (eu *EgressUse) needed(ctx context.Context, c broker.Caller, of func(name string, d provider.Driver) []scopes.Scope) ([]scopes.Scope, error) {
	live, err := eu.liveStore.Admit(ctx, broker.Admission{TaskID: c.TaskID})
	if err != nil {
		return nil, err
	}
	var out []scopes.Scope
	for _, name := range slices.Sorted(maps.Keys(eu.providers)) {
		p := eu.providers[name]
		for _, suggested := range of(name, p.Driver) {
			for _, s := range within(live.Ceiling, p, suggested) {
				set, err := scopes.NewSet(s)
				if err == nil && p.Driver.Check(set) == nil && carries(p, set) {
					out = append(out, s)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(x, y scopes.Scope) int { return cmp.Compare(eu.rank(x), eu.rank(y)) })
	return out[:min(len(out), maxNeeded)], nil
}

// rank is 0 for a scope that only reads, as its provider describes it.
func (eu *EgressUse) rank(s scopes.Scope) int {
	if d, is := eu.providers[s.Provider()].Driver.(provider.Describer); is {
		if e, err := d.Describe(s); err == nil && e.Writes == provider.No {
			return 0
		}
	}
	return 1
}
