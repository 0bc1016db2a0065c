package approval

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// A caller whose evidence could not be checked is blocked from approvals alone. Failures for
// two callers mark the attestor as down for all of its sandboxes, until it checks evidence
// again.
//
//ebb:invariant I12 The number of callers that ebb remembers because their evidence could not be checked is limited for each attestor
func TestWhoIsSilent(t *testing.T) {
	t.Parallel()
	var v kernel.AttestorOutages
	down := errors.New("out of reach")
	now := time.Unix(1_700_000_000, 0)
	from := func(who string) broker.Possession {
		return broker.Possession{Key: attest.Key{JKT: who}, From: who + "'s"}
	}
	mine, other, elsewhere := broker.Sandbox{Attestor: "a", JKT: "mine"}, broker.Sandbox{Attestor: "a", JKT: "other"}, broker.Sandbox{Attestor: "b", JKT: "mine"}
	for range 3 {
		v.Note(t.Context(), "a", from("mine"), now, down)
	}
	if !v.Down(mine, now) || v.Down(other, now) || v.Down(elsewhere, now) {
		t.Error("the failures of one caller blocked others")
	}
	v.Note(t.Context(), "a", from("third"), now, down)
	if !v.Down(other, now) || v.Down(elsewhere, now) {
		t.Error("failures for two callers did not mark the attestor as down")
	}
	if v.Down(other, now.Add(kernel.UnjudgedFor)) {
		t.Error("the outage did not expire")
	}
	for i := range 10 * kernel.MaxSilent {
		v.Note(t.Context(), "a", from(fmt.Sprint(i)), now, down)
	}
	if n := len(v.Since["a"]); n > kernel.MaxSilent {
		t.Errorf("%d are remembered", n)
	}
	v.Note(t.Context(), "a", from("third"), now, attest.ErrRejected)
	if v.Down(mine, now) || v.Down(other, now) {
		t.Error("the attestor checks evidence again, and is still marked as down")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	v.Note(gone, "a", from("mine"), now, down)
	if v.Down(mine, now) {
		t.Error("a cancelled request counted as a failure of the attestor")
	}
}

// A caller with many keys is still one caller: failures of its evidence block no other caller,
// and do not displace remembered failures of others.
//
//ebb:invariant I12 The number of remembered callers from one place is limited, so that one caller with many keys blocks no other caller's approvals
func TestSilenceOfManyKeys(t *testing.T) {
	t.Parallel()
	var v kernel.AttestorOutages
	down := errors.New("its /proc cannot be read")
	now := time.Unix(1_700_000_000, 0)
	other := broker.Sandbox{Attestor: "a", JKT: "other"}
	for i := range 10 * kernel.MaxSilent {
		v.Note(t.Context(), "a", broker.Possession{Key: attest.Key{JKT: fmt.Sprint(i)}, From: "uid 1000"}, now, down)
	}
	if v.Down(other, now) {
		t.Error("one caller with many keys marked the attestor as down")
	}
	v.Note(t.Context(), "a", broker.Possession{Key: attest.Key{JKT: "other"}, From: "uid 1001"}, now, down)
	if !v.Down(other, now) {
		t.Error("one caller with many keys displaced the failures of others")
	}
}
