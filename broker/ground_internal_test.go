package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ebb/attest"
)

// A caller whose evidence nobody can judge keeps itself from approvals, and nobody else;
// an attestor that fails two is down for all of its sandboxes, until it judges again.
func TestWhoIsSilent(t *testing.T) {
	t.Parallel()
	var v silences
	down := errors.New("out of reach")
	now := time.Unix(1_700_000_000, 0)
	from := func(who string) Possession { return Possession{Key: attest.Key{JKT: who}, From: who + "'s"} }
	mine, other, elsewhere := Sandbox{Attestor: "a", JKT: "mine"}, Sandbox{Attestor: "a", JKT: "other"}, Sandbox{Attestor: "b", JKT: "mine"}
	for range 3 {
		v.note(t.Context(), "a", from("mine"), now, down)
	}
	if !v.down(mine, now) || v.down(other, now) || v.down(elsewhere, now) {
		t.Error("one caller speaks for others")
	}
	v.note(t.Context(), "a", from("third"), now, down)
	if !v.down(other, now) || v.down(elsewhere, now) {
		t.Error("two that could not be judged are not enough")
	}
	if v.down(other, now.Add(unjudgedFor)) {
		t.Error("it counts for ever")
	}
	for i := range 10 * maxSilent {
		v.note(t.Context(), "a", from(fmt.Sprint(i)), now, down)
	}
	if n := len(v.since["a"]); n > maxSilent {
		t.Errorf("%d are remembered", n)
	}
	v.note(t.Context(), "a", from("third"), now, attest.ErrRejected)
	if v.down(mine, now) || v.down(other, now) {
		t.Error("it judges again, and is down")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	v.note(gone, "a", from("mine"), now, down)
	if v.down(mine, now) {
		t.Error("who went away says something of the attestor")
	}
}

// A caller has as many keys as it makes, and is one caller: what it does to its own
// evidence keeps nobody else from approvals, nor from being remembered.
func TestSilenceOfManyKeys(t *testing.T) {
	t.Parallel()
	var v silences
	down := errors.New("its /proc cannot be read")
	now := time.Unix(1_700_000_000, 0)
	other := Sandbox{Attestor: "a", JKT: "other"}
	for i := range 10 * maxSilent {
		v.note(t.Context(), "a", Possession{Key: attest.Key{JKT: fmt.Sprint(i)}, From: "uid 1000"}, now, down)
	}
	if v.down(other, now) {
		t.Error("one caller with many keys speaks for all")
	}
	v.note(t.Context(), "a", Possession{Key: attest.Key{JKT: "other"}, From: "uid 1001"}, now, down)
	if !v.down(other, now) {
		t.Error("one caller with many keys took the places of others")
	}
}
