package breakglass

import (
	"context"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Plans
	Reviews
}

// Reader reads break-glass periods, and who may start one.
type Reader interface {
	BreakGlassConfig() approval.BreakGlassConfig
	MayBreakGlass(who broker.Principal) error
	BreakGlassNow(ctx context.Context, who broker.Principal) ([]broker.BreakGlass, error)
	BreakGlasses(ctx context.Context, who broker.Principal, f broker.BreakGlassFilter) ([]broker.BreakGlass, error)
	BreakGlassOf(ctx context.Context, who broker.Principal, id string) (broker.BreakGlass, error)
}

// Plans starts and ends periods.
type Plans interface {
	PlanBreakGlass(who broker.Principal, incident string, reason string) (plan broker.BreakGlassPlan, token string, err error)
	ReadBreakGlassPlan(who broker.Principal, token string) (plan broker.BreakGlassPlan, err error)
	BeginBreakGlass(ctx context.Context, who broker.Principal, token string, proof approval.BreakGlassProof) (broker.BreakGlass, error)
	EndBreakGlass(ctx context.Context, who broker.Principal, id string) (broker.BreakGlass, error)
}

// Reviews reads what happened in a period, and stores the review.
type Reviews interface {
	Requests(ctx context.Context, who broker.Principal, f broker.RequestFilter) ([]broker.Request, error)
	BreakGlassRecorded(ctx context.Context, g broker.BreakGlass) error
	BreakGlassSignature(ctx context.Context, g broker.BreakGlass) (*audit.Signature, error)
	ReviewBreakGlass(ctx context.Context, who broker.Principal, id string, note string) (broker.BreakGlass, error)
}

// Pages serves break-glass: the list of periods, the start of one, its end and its review.
type Pages struct {
	Broker Broker
	Shell  *shell.Shell
	Proofs *proof.Proofs
}

// Routes are the pages and forms of break-glass.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Shell.Page(glassPath, ps.glasses),
		ps.Shell.Form(glassPath, false, ps.beginGlass),
		ps.Shell.Page(glassPath+"/plan", ps.plan),
		ps.Shell.Form(glassPath+"/plan", false, ps.planGlass),
		ps.Shell.Page(glassPath+"/challenge", ps.challengeGlass),
		ps.Shell.Page(glassPath+"/again", ps.againForGlass),
		ps.Shell.Page(glassPath+"/:id", ps.glass),
		ps.Shell.Form(glassPath+"/:id/end", true, ps.endGlass),
		ps.Shell.Form(glassPath+"/:id/review", false, ps.reviewGlass),
	}
}

// Nav is the entry of break-glass in the navigation. People who may start a
// period see it, and while break-glass is on its readers do.
func (ps *Pages) Nav() shell.NavEntry {
	return shell.NavEntry{Path: glassPath, Label: "Break-glass", For: func(v *session.Visit) bool {
		return v.Has(broker.RoleAuditor, broker.RoleOperator) && ps.Broker.BreakGlassConfig().On() || ps.Broker.MayBreakGlass(v.Principal) == nil
	}}
}
