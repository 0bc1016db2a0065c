package policies

import (
	"context"
	"html/template"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Drafts
	Trial
}

// Reader reads the policies in force, drafts and releases, and the request that a draft permits.
type Reader interface {
	Request(ctx context.Context, who broker.Principal, id string) (broker.Request, error)
	PolicyInForce(who broker.Principal) (policyset.InForce, error)
	PolicyDraft(ctx context.Context, who broker.Principal, id string) (policyset.Draft, error)
	PolicyDrafts(ctx context.Context, who broker.Principal) ([]policyset.Draft, error)
	PolicyRelease(ctx context.Context, who broker.Principal, number int64) (policyset.Release, error)
	PolicyReleases(ctx context.Context, who broker.Principal, before int64) ([]policyset.Release, error)
}

// Drafts changes and publishes drafts.
type Drafts interface {
	DraftPolicies(ctx context.Context, who broker.Principal, note string, files []policyset.File) (policyset.Draft, error)
	RedraftPolicies(ctx context.Context, who broker.Principal, id string, was string, note string, files []policyset.File, rebase bool) (policyset.Draft, error)
	DropPolicies(ctx context.Context, who broker.Principal, id string, digest string) error
	MayPublish(who broker.Principal, d policyset.Draft) error
	PublishPolicies(ctx context.Context, who broker.Principal, id string, digest string, yes broker.Verdict) (policyset.Release, error)
}

// Trial decides requests by the policies in force and by a draft.
type Trial interface {
	ProviderNames() []string
	AttestorNames() []string
	OpenProviders(set *policy.Set) (open []string)
	TryPolicies(ctx context.Context, who broker.Principal, q policy.Query, draft string) (policyadmin.PolicyTrial, error)
	ReplayPolicies(ctx context.Context, who broker.Principal, id string, days int, wait time.Duration) (policyadmin.PolicyReplay, error)
}

// Pages serves the policies in force, releases and drafts.
type Pages struct {
	Broker Broker
	Shell  *shell.Shell
	Proofs *proof.Proofs
}

// Readers may see the policies in force. Auditors and operators among them also
// see drafts and releases.
var Readers = []broker.Role{broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator}

// Routes are the routes of policies and drafts.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Shell.Page("/policy", ps.policy),
		ps.Shell.Page("/policy/releases/:number", ps.release),
		ps.Shell.Form("/policy/drafts", false, ps.beginDraft),
		ps.Shell.Page("/policy/drafts/:id", ps.draft),
		ps.Shell.Page("/policy/drafts/:id/patch", ps.patchDraft),
		ps.Shell.Page("/policy/drafts/:id/replay", ps.replay),
		ps.Shell.Page("/policy/drafts/:id/file", ps.draftFile),
		ps.Shell.Form("/policy/drafts/:id/file", false, ps.saveFile),
		ps.Shell.Form("/policy/drafts/:id/rebase", false, ps.rebaseDraft),
		ps.Shell.Form("/policy/drafts/:id/drop", false, ps.dropDraft),
		ps.Shell.Form("/policy/drafts/:id/publish", false, ps.publishDraft),
		ps.Shell.Page("/policy/drafts/:id/challenge", ps.challengeForDraft),
		ps.Shell.Page("/policy/drafts/:id/again", ps.againForDraft),
	}
}

// Funcs returns the functions that the templates of this area call.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"sourceSays": sourceSays,
		"version":    shortVersion,
	}
}
