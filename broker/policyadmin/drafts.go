package policyadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Drafts drafts, tests, replays and publishes policies.
type Drafts struct {
	attestors    map[string]attest.Attestor
	store        broker.Store
	limits       broker.Limits
	policies     broker.PolicyStore
	policy       *policy.Live
	policySource PolicySource
	providers    map[string]broker.Provider

	clock  *kernel.Timekeeper
	issuer issuer
	log    *kernel.Recorder

	replays replays
}

// PolicySource returns the policy set in force and its origin.
type PolicySource interface {
	// InForce returns the set that decides now.
	InForce() policyset.InForce
	// Look loads the set in force if it has changed. After it returns, this process decides by
	// that set, or has logged why it does not.
	Look(ctx context.Context)
}

// maxNote is the longest note on a draft, in code points.
const maxNote = 200

// PolicyInForce returns the set in force to approvers, operators and auditors.
func (pa *Drafts) PolicyInForce(who broker.Principal) (policyset.InForce, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleApprover, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return policyset.InForce{}, err
	}
	in := pa.policySource.InForce()
	if pa.policy.Current().Version() == "" {
		in.Version = "" // no set decides, even if one was loaded
	}
	return in, nil
}

// drafting refuses principals without one of the roles, and installations without drafts.
func (pa *Drafts) drafting(who broker.Principal, roles ...broker.Role) error {
	if err := broker.Allow(who, broker.Certain, roles...); err != nil {
		return err
	}
	if pa.policies == nil {
		return broker.E(broker.NotFound, "This ebb keeps no policy drafts. Policies come from files here.", nil)
	}
	return nil
}

// PolicyDrafts lists the drafts.
func (pa *Drafts) PolicyDrafts(ctx context.Context, who broker.Principal) ([]policyset.Draft, error) {
	if err := pa.drafting(who, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return nil, err
	}
	ds, err := pa.policies.Drafts(ctx)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return ds, nil
}

// PolicyDraft returns one draft.
func (pa *Drafts) PolicyDraft(ctx context.Context, who broker.Principal, id string) (policyset.Draft, error) {
	if err := pa.drafting(who, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return policyset.Draft{}, err
	}
	return pa.policyDraft(ctx, id)
}

func (pa *Drafts) policyDraft(ctx context.Context, id string) (policyset.Draft, error) {
	none := broker.E(broker.NotFound, "There is no such policy draft: it was published or deleted.", nil)
	if !broker.ValidID(broker.DraftPrefix, id) {
		return policyset.Draft{}, none
	}
	d, err := pa.policies.Draft(ctx, id)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return policyset.Draft{}, none
	case err != nil:
		return policyset.Draft{}, broker.StoreError(err)
	}
	return d, nil
}

// DraftPolicies proposes these files as a change of the set in force. They must load, because a
// set that does not load cannot be reviewed. The error then wraps a *policy.LoadError.
func (pa *Drafts) DraftPolicies(ctx context.Context, who broker.Principal, note string, files []policyset.File) (policyset.Draft, error) {
	if err := pa.drafting(who, broker.RoleOperator); err != nil {
		return policyset.Draft{}, err
	}
	live := pa.policySource.InForce()
	d := policyset.Draft{ID: broker.NewID(broker.DraftPrefix), Author: who.ID, Also: who.Also, Base: live.Version, After: live.Number, CreatedAt: pa.clock.Now()}
	return pa.putDraft(ctx, d, "", note, files)
}

// RedraftPolicies changes the principal's own draft. was is the digest that the author saw:
// ErrStale when the draft was changed meanwhile, for example in another window. rebase: the
// draft is based on the set now in force.
func (pa *Drafts) RedraftPolicies(ctx context.Context, who broker.Principal, id, was, note string, files []policyset.File, rebase bool) (policyset.Draft, error) {
	if err := pa.drafting(who, broker.RoleOperator); err != nil {
		return policyset.Draft{}, err
	}
	d, err := pa.policyDraft(ctx, id)
	switch {
	case err != nil:
		return d, err
	case d.Author != who.ID:
		return d, broker.E(broker.Forbidden, "Only its author can change a draft. Start a draft of your own from it.", nil)
	case d.Digest() != was:
		return d, broker.E(broker.Conflict, "The draft has changed since it was shown to you. Reload it.", broker.ErrStale)
	}
	if live := pa.policySource.InForce(); rebase {
		d.Base, d.After = live.Version, live.Number
	}
	for _, name := range who.Also { // the names at the time of writing still count as the author's
		if !slices.Contains(d.Also, name) {
			d.Also = append(d.Also, name)
		}
	}
	return pa.putDraft(ctx, d, was, note, files)
}

func (pa *Drafts) putDraft(ctx context.Context, d policyset.Draft, was, note string, files []policyset.File) (policyset.Draft, error) {
	d.Note = strings.TrimSpace(note)
	if utf8.RuneCountInString(d.Note) > maxNote || !jose.Plain(d.Note) {
		return d, broker.E(broker.Invalid, fmt.Sprintf("A note must be one line of at most %d printable characters.", maxNote), nil)
	}
	set, err := policyset.Check(files)
	if err != nil {
		return d, broker.E(broker.Invalid, "The policies cannot be loaded.", err)
	}
	d.Files, d.Version, d.ChangedAt = files, set.Version(), pa.clock.Now()
	e := pa.log.NewEntry(audit.PolicyDrafted, d.Author, map[string]any{"draft": d.ID, "digest": d.Digest(), "was": was, "base": d.Base, "policy": d.Version, "note": d.Note, "files": len(d.Files)})
	switch err := pa.policies.PutDraft(ctx, d, was, e); {
	case errors.Is(err, broker.ErrCap):
		return d, broker.E(broker.TooMany, fmt.Sprintf("There are %d drafts, the maximum. Delete one first.", policyset.MaxDrafts), err)
	case errors.Is(err, broker.ErrStale), errors.Is(err, broker.ErrNotFound):
		return d, broker.E(broker.Conflict, "The draft has changed since it was shown to you. Reload it.", broker.ErrStale)
	case err != nil:
		return d, broker.StoreError(err)
	}
	return d, nil
}

// DropPolicies deletes a draft. Any operator may, because a draft is not in force.
func (pa *Drafts) DropPolicies(ctx context.Context, who broker.Principal, id, digest string) error {
	if err := pa.drafting(who, broker.RoleOperator); err != nil {
		return err
	}
	d, err := pa.policyDraft(ctx, id)
	if err != nil {
		return err
	}
	err = pa.policies.DropDraft(ctx, id, digest, pa.log.NewEntry(audit.PolicyDropped, who.ID, map[string]any{"draft": id, "digest": digest, "author": d.Author}))
	switch {
	case errors.Is(err, broker.ErrStale), errors.Is(err, broker.ErrNotFound):
		return broker.E(broker.Conflict, "The draft has changed since it was shown to you. Reload it.", broker.ErrStale)
	case err != nil:
		return broker.StoreError(err)
	}
	return nil
}

// PolicyReleases lists the published sets, newest first and without texts.
func (pa *Drafts) PolicyReleases(ctx context.Context, who broker.Principal, before int64) ([]policyset.Release, error) {
	if err := pa.drafting(who, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return nil, err
	}
	rs, err := pa.policies.Releases(ctx, before, 20)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return rs, nil
}

// PolicyRelease returns one of them.
func (pa *Drafts) PolicyRelease(ctx context.Context, who broker.Principal, number int64) (policyset.Release, error) {
	if err := pa.drafting(who, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return policyset.Release{}, err
	}
	r, err := pa.policies.Release(ctx, number)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return r, broker.E(broker.NotFound, "No policies were published under this number.", err)
	case err != nil:
		return r, broker.StoreError(err)
	}
	return r, nil
}

// MayPublish returns why a person cannot publish a draft; nil = they can.
func (pa *Drafts) MayPublish(who broker.Principal, d policyset.Draft) error {
	live := pa.policySource.InForce()
	switch {
	case !who.Has(broker.RoleOperator):
		return broker.E(broker.Forbidden, "Only an operator publishes policies.", nil)
	case d.Wrote(append([]string{who.ID}, who.Also...)...):
		return broker.E(broker.Forbidden, "You cannot publish your own draft. Ask another operator.", nil)
	case live.Source != policyset.Database:
		return broker.E(broker.Conflict, "Policies come from files here. Export the draft, and have it reviewed where the files are kept.", nil)
	case d.Base != live.Version || d.After != live.Number:
		return broker.E(broker.Conflict, "The policies in force are not those that the draft is based on. Its author must compare both and rebase the draft.", broker.ErrStale)
	case d.Version == live.Version:
		return broker.E(broker.Conflict, "These policies are in force already.", nil)
	}
	return nil
}

// PublishPolicies puts a draft in force: the text and base named by digest. yes holds the
// publisher's proof (Proof, Choice, Passkey). Only the reviewed text is published: a changed
// draft or a changed set in force is Conflict and ErrStale.
func (pa *Drafts) PublishPolicies(ctx context.Context, who broker.Principal, id, digest string, yes broker.Verdict) (policyset.Release, error) {
	if err := pa.drafting(who, broker.RoleOperator); err != nil {
		return policyset.Release{}, err
	}
	stale := func(cause error) error {
		return broker.E(broker.Conflict, "The draft, or the policies in force, have changed since they were shown to you. Reload both.", errors.Join(broker.ErrStale, cause))
	}
	pa.policySource.Look(ctx) // another replica may have published
	d, err := pa.policyDraft(ctx, id)
	if err != nil {
		return policyset.Release{}, err
	}
	if err := pa.MayPublish(who, d); err != nil {
		return policyset.Release{}, err
	}
	if d.Digest() != digest {
		return policyset.Release{}, stale(nil)
	}
	// A draft saved by an earlier version of ebb may not load in this one.
	set, err := policyset.Check(d.Files)
	if err != nil || set.Version() != d.Version {
		return policyset.Release{}, broker.E(broker.Conflict, "This version of ebb reads the draft differently. Its author must save it again.", err)
	}
	r := policyset.Release{
		Number: d.After + 1, Version: d.Version, Before: d.Base, Files: d.Files, Draft: d.ID, Digest: digest, Note: d.Note,
		Author: d.Author, Publisher: who.ID, Proof: yes.Proof, At: pa.clock.Now(),
	}
	data := map[string]any{"release": r.Number, "draft": d.ID, "digest": digest, "author": d.Author, "before": r.Before, "policy": r.Version, "note": d.Note}
	if yes.Proof != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = broker.TextHash(yes.Proof), yes.Choice, yes.Passkey
	}
	if yes.Present {
		data["proofs"] = map[string]any{broker.MissingPresence: yes.Presence}
	}
	e := pa.log.NewEntry(audit.PolicyPublished, who.ID, data)
	switch err := pa.policies.Publish(ctx, r, e); {
	case errors.Is(err, broker.ErrStale), errors.Is(err, broker.ErrNotFound):
		return policyset.Release{}, stale(err)
	case err != nil:
		return policyset.Release{}, broker.StoreError(err)
	}
	pa.policySource.Look(context.WithoutCancel(ctx))
	return r, nil
}
