package requests

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Queue
	Decider
	Evidence
	Context
}

// Reader reads requests and the conditions of an approval.
type Reader interface {
	Request(ctx context.Context, who broker.Principal, id string) (broker.Request, error)
	Requests(ctx context.Context, who broker.Principal, f broker.RequestFilter) ([]broker.Request, error)
	Again(ctx context.Context, who broker.Principal, id string) (policy.Effect, broker.Request, error)
	PolicyVersion() string
	OpenBreakGlass(ctx context.Context, who broker.Principal) (broker.BreakGlass, bool, error)
}

// Queue lists the waiting requests and the throttled tasks.
type Queue interface {
	Waiting(ctx context.Context, who broker.Principal, mine bool, f broker.WaitFilter) (out report.WaitPage, err error)
	Throttled(ctx context.Context, who broker.Principal, mine bool) ([]approval.Throttled, error)
	DenyAll(ctx context.Context, who broker.Principal, taskID string, code broker.DenyCode, note string) (int, error)
}

// Decider takes decisions.
type Decider interface {
	MissingProofs(r broker.Request, v broker.Verdict) []string
	Decide(ctx context.Context, who broker.Principal, id string, v broker.Verdict) (broker.Request, error)
	DecideBatch(ctx context.Context, who broker.Principal, items []approval.Shown, v broker.Verdict) ([]approval.Outcome, error)
}

// Evidence reads the page that an approver saw, and the signature of the answer.
type Evidence interface {
	EvidenceSnapshot(ctx context.Context, who broker.Principal, id string, voter string) (broker.Request, broker.Vote, error)
	Signature(ctx context.Context, v broker.Vote) (*audit.Signature, error)
}

// Context reads the circumstances of a request.
type Context interface {
	Actions(ctx context.Context, who broker.Principal, id string) ([]audit.Entry, error)
	Approvers(r broker.Request) []broker.Principal
}

// Config holds the dependencies of New.
type Config struct {
	Broker Broker
	Shell  *shell.Shell
	Proofs *proof.Proofs
	// Cursors are the cursors of the list of all requests.
	Cursors *list.Cursors
	Views   *list.Views
	Key     []byte // of the snapshots in forms
	Reach   people.ReachStore
	Rights  func(people.Reach) broker.Principal // current rights of a person
	Outbox  notify.Outbox
}

// Pages serves the queue, requests, and the decisions on them.
type Pages struct {
	b       Broker
	shell   *shell.Shell
	proofs  *proof.Proofs
	cursors *list.Cursors
	views   *list.Views
	key     []byte
	people  *audience

	summaries summaries
}

// New returns the pages of this area.
func New(c Config) *Pages {
	return &Pages{b: c.Broker, shell: c.Shell, proofs: c.Proofs, cursors: c.Cursors, views: c.Views, key: c.Key, people: &audience{c.Broker, c.Reach, c.Rights, c.Outbox}, summaries: summaries{expirable.NewLRU[[2]string, summary](maxSummaries, nil, 0)}}
}

// Routes are the routes of waiting requests and decisions.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.views.Page("/queue", ps.queue),
		ps.views.Page("/requests", ps.history),
		ps.shell.Page("/requests/:id", ps.request),
		ps.shell.Page("/requests/:id/snapshot/:voter", ps.snapshot),
		ps.shell.Page("/requests/:id/challenge", ps.challenge),
		ps.shell.Page("/requests/:id/narrow", ps.narrow),
		ps.shell.Page("/requests/:id/again", ps.again),
		ps.shell.Watch("/requests/:id/state", ps.state),
		ps.decideRoute(),
		ps.shell.Page(batchPath, ps.batch),
		ps.shell.Page(batchPath+"/challenge", ps.batchChallenge),
		ps.shell.Page(batchPath+"/again", ps.batchAgain),
		{Route: web.Route{Method: http.MethodPost, Path: batchPath}, Handler: ps.shell.Guarded(ps.decideBatch)},
		ps.shell.Form("/tasks/:id/deny", true, ps.denyAll),
	}
}

// factsView is the data of the template "facts".
type factsView struct {
	shell.View
	Shown shown
}

// rowView is the data of the template "queuerow".
type rowView struct {
	shell.View
	Row queueRow
}

// draftingView is the data of the template "draftrule".
type draftingView struct {
	shell.View
	Requests []string // ids; none = no form
}

// drafting returns the ids of the requests, if the visitor may draft a rule that permits exactly
// them. A rule for a wildcard is written by hand.
func drafting(v *session.Visit, rs ...broker.Request) (ids []string) {
	if !v.Has(broker.RoleOperator) {
		return nil
	}
	for _, r := range rs {
		if slices.ContainsFunc(r.Scopes.Scopes(), scopes.Scope.IsPattern) {
			return nil
		}
		ids = append(ids, r.ID)
	}
	return ids
}

// Funcs returns the functions that the templates of this area call.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"facts":    func(v shell.View, s shown) factsView { return factsView{v, s} },
		"row":      func(v shell.View, r queueRow) rowView { return rowView{v, r} },
		"drafting": func(v shell.View, ids []string) draftingView { return draftingView{v, ids} },
		"parts":    func(s string) []string { return strings.SplitAfter(s, "/") },
	}
}
