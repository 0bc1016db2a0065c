package report

import (
	"context"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// shownActions is the number of actions that Actions returns.
const shownActions = 5

// actionKinds are the kinds of entries about actions of a sandbox. Answers of people, and the
// revocations that follow, are not among them.
var actionKinds = []string{
	audit.EgressCompleted, audit.EgressDenied, audit.EgressStatement, audit.LeaseIssued, audit.TaskDelegated, audit.TaskTainted,
	audit.SandboxEnrolled, audit.SandboxRejected, audit.SandboxAttested, audit.SandboxExited, "token.",
	audit.RequestCreated, audit.RequestRepeated, audit.RequestHeld, audit.RequestWithdrawn,
}

// Actions returns the newest audit entries about actions of the sandbox, and ebb's answers to them,
// in the task of the request id. It leaves out entries of this request, and entries of other requests
// that the reader may not see. Entries contain text of the sandbox, so Actions returns none to people
// without the right to read the agent's text.
func (l *Listings) Actions(ctx context.Context, who broker.Principal, id string) ([]audit.Entry, error) {
	r, err := l.Request(ctx, who, id)
	if err != nil || !ReadsWords(who, r) {
		return nil, err
	}
	found, err := l.store.EntryList(ctx, broker.EntryQuery{TaskID: r.TaskID, Kinds: actionKinds, Limit: 10 * shownActions, Look: 100 * shownActions})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	rs, err := l.Requests(ctx, who, broker.RequestFilter{TaskID: r.TaskID, Page: broker.Page{Desc: true, Limit: 10 * shownActions}})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	for _, other := range rs {
		seen[other.ID] = other.ID != id && ReadsWords(who, other)
	}
	leases, err := requestsOfLeases(ctx, l.store, l.clock.Now(), found.Entries)
	if err != nil {
		return nil, err
	}
	var out []audit.Entry
	for _, e := range found.Entries {
		request, known := e.RequestID, e.RequestID != ""
		if !known && e.LeaseID != "" {
			request, known = leases[e.LeaseID]
		}
		// Entries of egress and of refused tokens can name the resource of a hidden request without its id.
		open := who.Has(broker.RoleAuditor, broker.RoleOperator) || known || !strings.HasPrefix(e.Kind, "egress.") && !strings.HasPrefix(e.Kind, "token.")
		if len(out) < shownActions && open && (seen[request] || request == id && e.RequestID == "") {
			out = append(out, e)
		}
	}
	return out, nil
}

// requestsOfLeases returns the request of each existing lease that the entries name, "" for a lease that policy granted.
func requestsOfLeases(ctx context.Context, store broker.Store, now time.Time, entries []audit.Entry) (map[string]string, error) {
	var ids []string
	for _, e := range entries {
		if e.LeaseID != "" {
			ids = append(ids, e.LeaseID)
		}
	}
	out := map[string]string{}
	if len(ids) == 0 {
		return out, nil
	}
	ls, err := store.Leases(ctx, broker.LeaseFilter{IDs: ids, Now: now})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	for _, le := range ls {
		out[le.ID] = le.RequestID
	}
	return out, nil
}
