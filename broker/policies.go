package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/policyset"
)

// PolicySource says which policy set is in force and where it is from.
type PolicySource interface {
	// InForce is the set that decides now.
	InForce() policyset.InForce
	// Look loads what is in force if it has changed; when it returns, this process decides
	// by it, or has said why it does not.
	Look(ctx context.Context)
}

// maxNote is how long a note on a draft may be, in code points.
const maxNote = 200

// PolicyInForce is the set that decides, for those who decide by it, write it or audit it.
func (b *Broker) PolicyInForce(who Principal) (policyset.InForce, error) {
	if err := allow(who, certain, RoleApprover, RoleOperator, RoleAuditor); err != nil {
		return policyset.InForce{}, err
	}
	in := b.cfg.PolicySource.InForce()
	if b.PolicyVersion() == "" {
		in.Version = "" // whatever was loaded, nothing decides by it
	}
	return in, nil
}

// drafting refuses who may not do this, and where there are no drafts.
func (b *Broker) drafting(who Principal, roles ...Role) error {
	if err := allow(who, certain, roles...); err != nil {
		return err
	}
	if b.cfg.Policies == nil {
		return E(NotFound, "This ebb keeps no drafts of policies.", nil)
	}
	return nil
}

// PolicyDrafts lists what is proposed.
func (b *Broker) PolicyDrafts(ctx context.Context, who Principal) ([]policyset.Draft, error) {
	if err := b.drafting(who, RoleOperator, RoleAuditor); err != nil {
		return nil, err
	}
	ds, err := b.cfg.Policies.Drafts(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return ds, nil
}

// PolicyDraft is one of them.
func (b *Broker) PolicyDraft(ctx context.Context, who Principal, id string) (policyset.Draft, error) {
	if err := b.drafting(who, RoleOperator, RoleAuditor); err != nil {
		return policyset.Draft{}, err
	}
	return b.policyDraft(ctx, id)
}

func (b *Broker) policyDraft(ctx context.Context, id string) (policyset.Draft, error) {
	none := E(NotFound, "There is no such draft of policies: it was published or given up.", nil)
	if !validID(draftPrefix, id) {
		return policyset.Draft{}, none
	}
	d, err := b.cfg.Policies.Draft(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return policyset.Draft{}, none
	case err != nil:
		return policyset.Draft{}, unavailable(err)
	}
	return d, nil
}

// DraftPolicies proposes these files against the set in force. They must load: what
// cannot be judged is nothing to review. The error of files that do not wraps a
// *policy.LoadError.
func (b *Broker) DraftPolicies(ctx context.Context, who Principal, note string, files []policyset.File) (policyset.Draft, error) {
	if err := b.drafting(who, RoleOperator); err != nil {
		return policyset.Draft{}, err
	}
	live := b.cfg.PolicySource.InForce()
	d := policyset.Draft{ID: newID(draftPrefix), Author: who.ID, Also: who.Also, Base: live.Version, After: live.Number, CreatedAt: b.now()}
	return b.putDraft(ctx, d, "", note, files)
}

// RedraftPolicies changes a draft of one's own. was is its digest as the author knows it:
// ErrStale when somebody has changed it meanwhile, in another window. rebase: it is written against
// the set in force from now on.
func (b *Broker) RedraftPolicies(ctx context.Context, who Principal, id, was, note string, files []policyset.File, rebase bool) (policyset.Draft, error) {
	if err := b.drafting(who, RoleOperator); err != nil {
		return policyset.Draft{}, err
	}
	d, err := b.policyDraft(ctx, id)
	switch {
	case err != nil:
		return d, err
	case d.Author != who.ID:
		return d, E(Forbidden, "Only its author changes a draft. Begin one of your own from it.", nil)
	case d.Digest() != was:
		return d, E(Conflict, "The draft has changed since you looked. Look again.", ErrStale)
	}
	if live := b.cfg.PolicySource.InForce(); rebase {
		d.Base, d.After = live.Version, live.Number
	}
	for _, name := range who.Also { // whoever they were when they wrote it, they still are
		if !slices.Contains(d.Also, name) {
			d.Also = append(d.Also, name)
		}
	}
	return b.putDraft(ctx, d, was, note, files)
}

func (b *Broker) putDraft(ctx context.Context, d policyset.Draft, was, note string, files []policyset.File) (policyset.Draft, error) {
	d.Note = strings.TrimSpace(note)
	if utf8.RuneCountInString(d.Note) > maxNote || !jose.Plain(d.Note) {
		return d, E(Invalid, fmt.Sprintf("A note is one line of at most %d characters that can be seen.", maxNote), nil)
	}
	set, err := policyset.Check(files)
	if err != nil {
		return d, E(Invalid, "The policies do not load.", err)
	}
	d.Files, d.Version, d.ChangedAt = files, set.Version(), b.now()
	e := b.entry(audit.PolicyDrafted, d.Author, map[string]any{"draft": d.ID, "digest": d.Digest(), "was": was, "base": d.Base, "policy": d.Version, "note": d.Note, "files": len(d.Files)})
	switch err := b.cfg.Policies.PutDraft(ctx, d, was, e); {
	case errors.Is(err, ErrCap):
		return d, E(TooMany, fmt.Sprintf("There are %d drafts. Give one up first.", policyset.MaxDrafts), err)
	case errors.Is(err, ErrStale), errors.Is(err, ErrNotFound):
		return d, E(Conflict, "The draft has changed since you looked. Look again.", ErrStale)
	case err != nil:
		return d, unavailable(err)
	}
	return d, nil
}

// DropPolicies gives a draft up. Any operator may: nothing is in force by it.
func (b *Broker) DropPolicies(ctx context.Context, who Principal, id, digest string) error {
	if err := b.drafting(who, RoleOperator); err != nil {
		return err
	}
	d, err := b.policyDraft(ctx, id)
	if err != nil {
		return err
	}
	err = b.cfg.Policies.DropDraft(ctx, id, digest, b.entry(audit.PolicyDropped, who.ID, map[string]any{"draft": id, "digest": digest, "author": d.Author}))
	switch {
	case errors.Is(err, ErrStale), errors.Is(err, ErrNotFound):
		return E(Conflict, "The draft has changed since you looked. Look again.", ErrStale)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// PolicyReleases lists what was published, newest first and without texts.
func (b *Broker) PolicyReleases(ctx context.Context, who Principal, before int64) ([]policyset.Release, error) {
	if err := b.drafting(who, RoleOperator, RoleAuditor); err != nil {
		return nil, err
	}
	rs, err := b.cfg.Policies.Releases(ctx, before, 20)
	if err != nil {
		return nil, unavailable(err)
	}
	return rs, nil
}

// PolicyRelease is one of them.
func (b *Broker) PolicyRelease(ctx context.Context, who Principal, number int64) (policyset.Release, error) {
	if err := b.drafting(who, RoleOperator, RoleAuditor); err != nil {
		return policyset.Release{}, err
	}
	r, err := b.cfg.Policies.Release(ctx, number)
	switch {
	case errors.Is(err, ErrNotFound):
		return r, E(NotFound, "No policies were published under this number.", err)
	case err != nil:
		return r, unavailable(err)
	}
	return r, nil
}

// MayPublish is why somebody cannot publish a draft, whatever it says; nil = they can.
func (b *Broker) MayPublish(who Principal, d policyset.Draft) error {
	live := b.cfg.PolicySource.InForce()
	switch {
	case !who.Has(RoleOperator):
		return E(Forbidden, "Only an operator publishes policies.", nil)
	case d.Wrote(append([]string{who.ID}, who.Also...)...):
		return E(Forbidden, "Nobody publishes their own draft. Ask another operator.", nil)
	case live.Source != policyset.Database:
		return E(Conflict, "Policies come from files here. Take the draft out, and have it reviewed where those are kept.", nil)
	case d.Base != live.Version || d.After != live.Number:
		return E(Conflict, "Other policies are in force than those the draft was written against. Its author looks at both and says that it still holds.", ErrStale)
	case d.Version == live.Version:
		return E(Conflict, "These policies are in force already.", nil)
	}
	return nil
}

// PublishPolicies puts a draft in force: its text and base as digest names them.
// yes is what proves the publisher's (Proof, Choice, Passkey). Nothing else than what was seen is
// published: a draft or a set in force that has changed is Conflict and ErrStale.
func (b *Broker) PublishPolicies(ctx context.Context, who Principal, id, digest string, yes Verdict) (policyset.Release, error) {
	if err := b.drafting(who, RoleOperator); err != nil {
		return policyset.Release{}, err
	}
	stale := func(cause error) error {
		return E(Conflict, "The draft, or the policies in force, have changed since you looked. Look again.", errors.Join(ErrStale, cause))
	}
	b.cfg.PolicySource.Look(ctx) // another replica may have published
	d, err := b.policyDraft(ctx, id)
	if err != nil {
		return policyset.Release{}, err
	}
	if err := b.MayPublish(who, d); err != nil {
		return policyset.Release{}, err
	}
	if d.Digest() != digest {
		return policyset.Release{}, stale(nil)
	}
	// What loaded when it was drafted may not load in this version of ebb.
	set, err := policyset.Check(d.Files)
	if err != nil || set.Version() != d.Version {
		return policyset.Release{}, E(Conflict, "This version of ebb reads the draft differently. Its author saves it again.", err)
	}
	r := policyset.Release{
		Number: d.After + 1, Version: d.Version, Before: d.Base, Files: d.Files, Draft: d.ID, Digest: digest, Note: d.Note,
		Author: d.Author, Publisher: who.ID, Proof: yes.Proof, At: b.now(),
	}
	data := map[string]any{"release": r.Number, "draft": d.ID, "digest": digest, "author": d.Author, "before": r.Before, "policy": r.Version, "note": d.Note}
	if yes.Proof != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = SeenHash(yes.Proof), yes.Choice, yes.Passkey
	}
	e := b.entry(audit.PolicyPublished, who.ID, data)
	switch err := b.cfg.Policies.Publish(ctx, r, e); {
	case errors.Is(err, ErrStale), errors.Is(err, ErrNotFound):
		return policyset.Release{}, stale(err)
	case err != nil:
		return policyset.Release{}, unavailable(err)
	}
	b.cfg.PolicySource.Look(context.WithoutCancel(ctx))
	return r, nil
}
