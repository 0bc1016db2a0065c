package policysource_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/policysource"
)

// A replica decides by the set that another one published. A set that it cannot read changes
// nothing, is recorded, and prevents a start.
//
//ebb:invariant I6 Policies that fail to load leave the policy set in force unchanged
func TestReleasesReachReplicas(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Published: true})
	c := policysource.Config{Releases: e.Store, Store: e.Store, Log: e.Config.Logger, Now: e.Clock.Now}
	replica, err := policysource.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Broker.DraftPolicies(t.Context(), e.Principals[brokertest.Operator], "", []policyset.File{{Name: "a.cedar", Text: `@id("r") permit (principal, action == Ebb::Action::"read", resource);`}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Broker.PublishPolicies(t.Context(), e.Principals[brokertest.Operator2], d.ID, d.Digest(), broker.Verdict{})
	if err != nil {
		t.Fatal(err)
	}
	replica.Look(t.Context())
	if in := replica.InForce(); in.Number != 1 || in.Version != r.Version || replica.Live().Current().Version() != r.Version {
		t.Fatalf("%+v", in)
	}
	// As a newer version of ebb might publish it.
	d.ID, d.After = "pol_newer", 1
	d.Files = []policyset.File{{Name: "a.cedar", Text: `@id("r") permit (principal, action, resource) when { context.later };`}}
	if err := e.Store.PutDraft(t.Context(), d, "", audit.Entry{At: e.Clock.Now(), Kind: audit.PolicyDrafted, Actor: "x"}); err != nil {
		t.Fatal(err)
	}
	r.Number, r.Draft, r.Digest, r.Files = 2, d.ID, d.Digest(), d.Files
	if err := e.Store.Publish(t.Context(), r, audit.Entry{At: e.Clock.Now(), Kind: audit.PolicyPublished, Actor: "x"}); err != nil {
		t.Fatal(err)
	}
	replica.Look(t.Context())
	replica.Look(t.Context())
	if in := replica.InForce(); in.Number != 1 {
		t.Errorf("%d is in force", in.Number)
	}
	n := 0
	for _, err := range e.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.PolicyRejected}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries say so", n)
	}
	if _, err := policysource.Open(t.Context(), c); policyset.Problems(err) == nil {
		t.Errorf("Open accepted a set that it cannot read: %v", err)
	}
}

// fallible is a Store that can be set to refuse writes.
type fallible struct {
	broker.Store
	off bool
}

func (f *fallible) Append(ctx context.Context, r broker.Record) error {
	if f.off {
		return errors.New("database is locked")
	}
	return f.Store.Append(ctx, r)
}

// A set that could not be recorded in the audit log is not in force, and is tried again.
//
//ebb:invariant I11 A loaded policy set is recorded in the audit log before any decision uses it
func TestReloadIsRecordedFirst(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Published: true})
	store := &fallible{Store: e.Store}
	replica, err := policysource.Open(t.Context(), policysource.Config{Releases: e.Store, Store: store, Log: e.Config.Logger, Now: e.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	before := replica.InForce().Version
	d, err := e.Broker.DraftPolicies(t.Context(), e.Principals[brokertest.Operator], "", []policyset.File{{Name: "a.cedar", Text: `@id("r") permit (principal, action == Ebb::Action::"read", resource);`}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Broker.PublishPolicies(t.Context(), e.Principals[brokertest.Operator2], d.ID, d.Digest(), broker.Verdict{})
	if err != nil {
		t.Fatal(err)
	}
	recorded := func() (n int) {
		for entry, err := range e.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.PolicyReloaded}) {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Kind == audit.PolicyReloaded {
				n++
			}
		}
		return n
	}
	had := recorded()
	store.off = true
	replica.Look(t.Context())
	if got := replica.Live().Current().Version(); got != before || recorded() != had {
		t.Errorf("%s is in force, which the record does not say", got)
	}
	store.off = false
	replica.Look(t.Context())
	if got := replica.Live().Current().Version(); got != r.Version || recorded() != had+1 {
		t.Errorf("%s is in force and %d entries say so, once the record takes writes", got, recorded()-had)
	}
}
