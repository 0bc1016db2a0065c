package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/policyset"
)

// RunPolicies tests the contract of broker.PolicyStore.
func RunPolicies(t *testing.T, open OpenStores) {
	run(t, open, ofStore, map[string]func(*storeTest){
		"Drafts": drafts, "DraftsRefuse": draftsRefuse, "DraftsCap": draftsCap, "DraftRace": draftRace,
		"Releases": releases, "PublishRefuses": publishRefuses, "PublishRace": publishRace, "DraftAgainstPublish": draftAgainstPublish,
	})
}

// newDraft returns a draft with every member set.
func newDraft() policyset.Draft {
	return policyset.Draft{
		ID: newID("pol_"), Author: "ola", Also: []string{"ola@example.org", "Ola \"the\" Ø"}, Note: "less for 'web'; -- and\tmore", Base: "v0", Version: "v1",
		Files:     []policyset.File{{Name: "a.cedar", Text: "permit\n(\u00f8 \U0001f30a \"'\\u{202e}\" ? $1);"}, {Name: "b.cedar", Text: "x"}},
		CreatedAt: Epoch, ChangedAt: Epoch.Add(time.Minute),
	}
}

// releaseOf returns the release of a draft after another release.
func releaseOf(d policyset.Draft, after int64) policyset.Release {
	return policyset.Release{Number: after + 1, Version: d.Version, Before: d.Base, Files: d.Files, Draft: d.ID, Digest: d.Digest(), Note: d.Note,
		Author: d.Author, Publisher: "uma", Proof: `{"key":"x"}`, At: Epoch.Add(time.Hour)}
}

func (t *storeTest) put(d policyset.Draft, was string) error {
	return t.Policies.PutDraft(context.WithoutCancel(t.Context()), d, was, Entry(audit.PolicyDrafted, ""))
}

func (t *storeTest) proposed() policyset.Draft {
	t.Helper()
	d := newDraft()
	t.want("a new draft", t.put(d, ""), nil)
	return d
}

func drafts(t *storeTest) {
	none, err := t.Policies.Drafts(t.Context())
	if err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	a, b := t.proposed(), newDraft()
	b.Also, b.ChangedAt = nil, a.ChangedAt.Add(time.Second)
	t.want("another", t.put(b, ""), nil)
	got, err := t.Policies.Drafts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.same("drafts", got, []policyset.Draft{b, a})
	was := a.Digest()
	a.Files, a.Note, a.ChangedAt = a.Files[:1], "", a.ChangedAt.Add(time.Hour)
	t.want("changed", t.put(a, was), nil)
	one, err := t.another().Policies.Draft(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.same("a draft after another start", one, a)
	t.want("dropped", t.Policies.DropDraft(t.Context(), b.ID, b.Digest(), Entry(audit.PolicyDropped, "")), nil)
	_, err = t.Policies.Draft(t.Context(), b.ID)
	t.want("a dropped one", err, broker.ErrNotFound)
	if n := t.written(audit.PolicyDrafted); n != 3 {
		t.Errorf("%d entries about drafts", n)
	}
}

func draftsRefuse(t *storeTest) {
	d := t.proposed()
	e := Entry(audit.PolicyDropped, "")
	t.want("the same id", t.put(d, ""), broker.ErrExists)
	t.want("another digest", t.put(d, strings.Repeat("0", 64)), broker.ErrStale)
	t.want("dropped by another digest", t.Policies.DropDraft(t.Context(), d.ID, "x", e), broker.ErrStale)
	t.want("dropped what is not there", t.Policies.DropDraft(t.Context(), newID("pol_"), d.Digest(), e), broker.ErrNotFound)
	gone := newDraft()
	t.want("changed what is not there", t.put(gone, gone.Digest()), broker.ErrNotFound)
	for what, change := range map[string]func(*policyset.Draft){
		"no id": func(d *policyset.Draft) { d.ID = "" }, "no author": func(d *policyset.Draft) { d.Author = "" }, "no files": func(d *policyset.Draft) { d.Files = nil },
		"no time": func(d *policyset.Draft) { d.ChangedAt = time.Time{} }, "no UTF-8": func(d *policyset.Draft) { d.Note = "\xff" },
		"NUL": func(d *policyset.Draft) { d.Files = []policyset.File{{Name: "a.cedar", Text: "a\x00b"}} },
	} {
		bad := newDraft()
		change(&bad)
		if err := t.put(bad, ""); err == nil {
			t.Errorf("%s: it was kept", what)
		}
	}
	bad := Entry("made.up", "")
	if err := t.Policies.PutDraft(t.Context(), newDraft(), "", bad); err == nil {
		t.Error("a draft was kept without its entry")
	}
	got, err := t.Policies.Drafts(t.Context())
	if err != nil || len(got) != 1 || got[0].Digest() != d.Digest() || t.written(audit.PolicyDrafted) != 1 || t.written(audit.PolicyDropped) != 0 {
		t.Errorf("a refused draft left data behind: %+v, %v", got, err)
	}
}

func draftsCap(t *storeTest) {
	var wg sync.WaitGroup
	var kept atomic.Int64
	for range policyset.MaxDrafts + 10 {
		wg.Go(func() {
			switch err := t.put(newDraft(), ""); {
			case err == nil:
				kept.Add(1)
			case !errors.Is(err, broker.ErrCap):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if kept.Load() != policyset.MaxDrafts {
		t.Errorf("%d drafts", kept.Load())
	}
}

// draftRace: of concurrent changes of the same text one wins, and the others get an
// error.
func draftRace(t *storeTest) {
	d := t.proposed()
	won := t.contend(8, func(i int) error {
		mine := d
		mine.Note = fmt.Sprint(i)
		return t.put(mine, d.Digest())
	})
	if got, err := t.Policies.Draft(t.Context(), d.ID); err != nil || len(won) != 1 || got.Note != fmt.Sprint(won[0]) {
		t.Errorf("%v won, and there is %q, %v", won, got.Note, err)
	}
}

// contend runs n calls at once. It returns the winners; the others must get ErrStale or
// ErrNotFound.
func (t *storeTest) contend(n int, f func(i int) error) (won []int) {
	t.Helper()
	for i, err := range race(n, f) {
		switch {
		case err == nil:
			won = append(won, i)
		case !errors.Is(err, broker.ErrStale) && !errors.Is(err, broker.ErrNotFound):
			t.Errorf("%d: %v", i, err)
		}
	}
	return won
}

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
		r := releaseOf(t.proposed(), int64(i))
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
	r := releaseOf(d, 0)
	for what, tt := range map[string]struct {
		change func(*policyset.Release)
		want   error
	}{
		"a number ahead": {func(r *policyset.Release) { r.Number = 2 }, broker.ErrStale}, "another text": {func(r *policyset.Release) { r.Digest = "x" }, broker.ErrStale},
		"no such draft": {func(r *policyset.Release) { r.Draft = newID("pol_") }, broker.ErrNotFound},
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
		return replicas[i%2].Policies.Publish(context.WithoutCancel(t.Context()), releaseOf(ds[i], 0), Entry(audit.PolicyPublished, ""))
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
			return t.publish(releaseOf(d, 0))
		}
		return replica.Policies.PutDraft(context.WithoutCancel(t.Context()), other, d.Digest(), Entry(audit.PolicyDrafted, ""))
	})
	newest, err := t.Policies.NewestRelease(t.Context())
	if err != nil || len(won) != 1 || newest != int64(1-won[0]) {
		t.Errorf("%v won, %d is the newest, %v", won, newest, err)
	}
}
