package requests

import (
	"context"
	"html/template"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Queue
	Decider
	Evidence
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
	ApproveBatch(ctx context.Context, who broker.Principal, items []approval.Shown, proof broker.Verdict) ([]broker.Request, error)
}

// Evidence reads the page that an approver saw, and the signature of the
// answer.
type Evidence interface {
	EvidenceSnapshot(ctx context.Context, who broker.Principal, id string, voter string) (broker.Request, broker.Vote, error)
	Signature(ctx context.Context, v broker.Vote) (*audit.Signature, error)
}

// Config holds the dependencies of New.
type Config struct {
	Broker Broker
	Shell  *shell.Shell
	Proofs *proof.Proofs
	Key    []byte // of the snapshots in forms
}

// Pages serves the queue, requests, and the decisions on them.
type Pages struct {
	b      Broker
	shell  *shell.Shell
	proofs *proof.Proofs
	key    []byte

	summaries summaries
}

// New returns the pages of this area.
func New(c Config) *Pages {
	return &Pages{b: c.Broker, shell: c.Shell, proofs: c.Proofs, key: c.Key}
}

// Routes are the routes of waiting requests and decisions.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.shell.Page("/queue", ps.queue),
		ps.shell.Page("/requests/:id", ps.request),
		ps.shell.Page("/requests/:id/snapshot/:voter", ps.snapshot),
		ps.shell.Page("/requests/:id/challenge", ps.challenge),
		ps.shell.Page("/requests/:id/again", ps.again),
		ps.decideRoute(),
		ps.shell.Page(batchPath, ps.batch),
		ps.shell.Page(batchPath+"/challenge", ps.batchChallenge),
		ps.shell.Form(batchPath, false, ps.approveBatch),
		ps.shell.Form("/tasks/:id/deny", true, ps.denyAll),
	}
}

// Funcs returns the functions that the templates of this area call.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"levels": func() []risk.Level { return []risk.Level{risk.High, risk.Medium, risk.Low} },
	}
}
