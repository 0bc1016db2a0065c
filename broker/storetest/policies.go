package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/policyset"
)

// RunPolicies runs every sentence of the contract of broker.PolicyDesk.
func RunPolicies(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*journalTest){
		"Drafts": drafts, "DraftsRefuse": draftsRefuse, "DraftsCap": draftsCap, "DraftRace": draftRace,
		"Releases": releases, "PublishRefuses": publishRefuses, "PublishRace": publishRace, "DraftAgainstPublish": draftAgainstPublish,
	})
}

// Draft is a draft with every member filled.
func Draft() policyset.Draft {
	return policyset.Draft{
		ID: ID("pol_"), Author: "ola", Also: []string{"ola@example.org", "Ola \"the\" Ø"}, Note: "less for 'web'; -- and\tmore", Base: "v0", Version: "v1",
		Files:     []policyset.File{{Name: "a.cedar", Text: "permit\n(\u00f8 \U0001f30a \"'\\u{202e}\" ? $1);"}, {Name: "b.cedar", Text: "x"}},
		CreatedAt: Epoch, ChangedAt: Epoch.Add(time.Minute),
	}
}

// ReleaseOf is what comes of publishing a draft as the release after another.
func ReleaseOf(d policyset.Draft, after int64) policyset.Release {
	return policyset.Release{Number: after + 1, Version: d.Version, Before: d.Base, Files: d.Files, Draft: d.ID, Digest: d.Digest(), Note: d.Note,
		Author: d.Author, Publisher: "uma", Proof: `{"key":"x"}`, At: Epoch.Add(time.Hour)}
}

func (t *journalTest) put(d policyset.Draft, was string) error {
	return t.Policies.PutDraft(context.WithoutCancel(t.Context()), d, was, Entry(audit.PolicyDrafted, ""))
}

func (t *journalTest) proposed() policyset.Draft {
	t.Helper()
	d := Draft()
	t.want("a new draft", t.put(d, ""), nil)
	return d
}

func (t *journalTest) written(kind string) int {
	t.Helper()
	return len(t.entries(broker.EntryFilter{Kind: kind}))
}

func drafts(t *journalTest) {
	none, err := t.Policies.Drafts(t.Context())
	if err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	a, b := t.proposed(), Draft()
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

func draftsRefuse(t *journalTest) {
	d := t.proposed()
	e := Entry(audit.PolicyDropped, "")
	t.want("the same id", t.put(d, ""), broker.ErrExists)
	t.want("another digest", t.put(d, strings.Repeat("0", 64)), broker.ErrStale)
	t.want("dropped by another digest", t.Policies.DropDraft(t.Context(), d.ID, "x", e), broker.ErrStale)
	t.want("dropped what is not there", t.Policies.DropDraft(t.Context(), ID("pol_"), d.Digest(), e), broker.ErrNotFound)
	gone := Draft()
	t.want("changed what is not there", t.put(gone, gone.Digest()), broker.ErrNotFound)
	for what, change := range map[string]func(*policyset.Draft){
		"no id": func(d *policyset.Draft) { d.ID = "" }, "no author": func(d *policyset.Draft) { d.Author = "" }, "no files": func(d *policyset.Draft) { d.Files = nil },
		"no time": func(d *policyset.Draft) { d.ChangedAt = time.Time{} }, "no UTF-8": func(d *policyset.Draft) { d.Note = "\xff" },
		"NUL": func(d *policyset.Draft) { d.Files = []policyset.File{{Name: "a.cedar", Text: "a\x00b"}} },
	} {
		bad := Draft()
		change(&bad)
		if err := t.put(bad, ""); err == nil {
			t.Errorf("%s: it was kept", what)
		}
	}
	bad := Entry("made.up", "")
	if err := t.Policies.PutDraft(t.Context(), Draft(), "", bad); err == nil {
		t.Error("a draft was kept without its entry")
	}
	got, err := t.Policies.Drafts(t.Context())
	if err != nil || len(got) != 1 || got[0].Digest() != d.Digest() || t.written(audit.PolicyDrafted) != 1 || t.written(audit.PolicyDropped) != 0 {
		t.Errorf("what was refused left something: %+v, %v", got, err)
	}
}

func draftsCap(t *journalTest) {
	var wg sync.WaitGroup
	var kept atomic.Int64
	for range policyset.MaxDrafts + 10 {
		wg.Go(func() {
			switch err := t.put(Draft(), ""); {
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

// draftRace: of those that change the same text one wins, and the others are told.
func draftRace(t *journalTest) {
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

// contend runs n at once. It returns who won; the others must be told that they are late.
func (t *journalTest) contend(n int, f func(i int) error) (won []int) {
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
