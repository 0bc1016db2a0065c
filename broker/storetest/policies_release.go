package storetest

import (
	"context"
	"slices"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/policyset"
)

func (t *storeTest) publish(r policyset.Release) error {
	return t.Policies.Publish(context.WithoutCancel(t.Context()), r, Entry(audit.PolicyPublished, ""))
}

func releases(t *storeTest) {
	newest, err := t.Policies.NewestRelease(t.Context())
	if err != nil || newest != 0 {
		t.Fatal(newest, err)
	}
	_, err = t.Policies.Release(t.Context(), 1)
	t.want("the first before there is one", err, broker.ErrNotFound)
	var all []policyset.Release
	for i := range 5 {
		r := ReleaseOf(t.proposed(), int64(i))
		t.want("publish", t.publish(r), nil)
		_, err := t.Policies.Draft(t.Context(), r.Draft)
		t.want("the draft of it", err, broker.ErrNotFound)
		got, err := t.Policies.Release(t.Context(), r.Number)
		if err != nil {
			t.Fatal(err)
		}
		t.same("a release", got, r)
		r.Files = []policyset.File{}
		all = append(all, r)
	}
	slices.Reverse(all)
	first, err := t.Policies.Releases(t.Context(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := t.another().Policies.Releases(t.Context(), first[1].Number, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.same("releases", append(first, rest...), all)
	if n := t.written(audit.PolicyPublished); n != 5 {
		t.Errorf("%d entries", n)
	}
	for _, n := range []int{0, -1, 1001} {
		if _, err := t.Policies.Releases(t.Context(), 0, n); err == nil {
			t.Errorf("a page of %d", n)
		}
	}
}

func publishRefuses(t *storeTest) {
	d := t.proposed()
	r := ReleaseOf(d, 0)
	for what, tt := range map[string]struct {
		change func(*policyset.Release)
		want   error
	}{
		"a number ahead": {func(r *policyset.Release) { r.Number = 2 }, broker.ErrStale}, "another text": {func(r *policyset.Release) { r.Digest = "x" }, broker.ErrStale},
		"no such draft": {func(r *policyset.Release) { r.Draft = ID("pol_") }, broker.ErrNotFound},
	} {
		bad := r
		tt.change(&bad)
		t.want(what, t.publish(bad), tt.want)
	}
	for _, change := range []func(*policyset.Release){
		func(r *policyset.Release) { r.Number = 0 }, func(r *policyset.Release) { r.Publisher = "" }, func(r *policyset.Release) { r.Files = nil }, func(r *policyset.Release) { r.Proof = "\x00" },
	} {
		bad := r
		change(&bad)
		if err := t.publish(bad); err == nil {
			t.Errorf("it was published: %+v", bad)
		}
	}
	if _, err := t.Policies.Draft(t.Context(), d.ID); err != nil || t.written(audit.PolicyPublished) != 0 {
		t.Errorf("a refused release left data behind: %v", err)
	}
	t.want("publish", t.publish(r), nil)
	t.want("again", t.publish(r), broker.ErrStale)
}

// publishRace: of concurrent publications of different drafts on two replicas, one wins;
// the other drafts stay.
func publishRace(t *storeTest) {
	var ds []policyset.Draft
	for range 8 {
		ds = append(ds, t.proposed())
	}
	replicas := []Stores{t.Stores, t.another()}
	won := t.contend(8, func(i int) error {
		return replicas[i%2].Policies.Publish(context.WithoutCancel(t.Context()), ReleaseOf(ds[i], 0), Entry(audit.PolicyPublished, ""))
	})
	left, err := t.Policies.Drafts(t.Context())
	if err != nil || len(won) != 1 || len(left) != 7 {
		t.Fatalf("%v won, %d drafts are left, %v", won, len(left), err)
	}
	if r, err := t.Policies.Release(t.Context(), 1); err != nil || r.Draft != ds[won[0]].ID {
		t.Errorf("%s is published, %v", r.Draft, err)
	}
}

// draftAgainstPublish: a text that changes during its publication is published as it was
// seen, or not at all.
func draftAgainstPublish(t *storeTest) {
	d := t.proposed()
	other := d
	other.Files = other.Files[:1]
	replica := t.another()
	won := t.contend(2, func(i int) error {
		if i == 0 {
			return t.publish(ReleaseOf(d, 0))
		}
		return replica.Policies.PutDraft(context.WithoutCancel(t.Context()), other, d.Digest(), Entry(audit.PolicyDrafted, ""))
	})
	newest, err := t.Policies.NewestRelease(t.Context())
	if err != nil || len(won) != 1 || newest != int64(1-won[0]) {
		t.Errorf("%v won, %d is the newest, %v", won, newest, err)
	}
}
