package storetest

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/provider"
)

// RunRevocationQueue tests the contract of broker.RevocationQueue, and the effects of a Record on a lease with
// an Upstream.
func RunRevocationQueue(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*storeTest){
		"Issue": issueUpstream, "IssueRefused": issueUpstreamRefused,
		"Take": take, "TakeClaims": takeClaims, "TakeTurns": takeTurns, "TakeTrees": takeTrees, "TakeThousands": takeThousands, "TakeBounds": takeBounds,
		"SettleLife": settleLife, "SettleFence": settleFence, "SettleFinal": settleFinal, "SettleOnce": settleOnce, "SettleExpiry": settleExpiry,
		"SettleHandle": settleHandle, "SettleErases": settleErases, "SettleAgain": settleAgain, "SettleRefused": settleRefused,
		"Close": closeMoves, "CloseThenSettle": closeThenSettle, "CloseExpired": closeExpired, "End": endUpstream, "EndNarrowed": endNarrowed,
		"Listings": upstreamListings, "Derived": upstreamDerived, "Pending": pendingRevocations, "Sealed": sealed, "Reseal": reseal,
		"RaceTake": raceTake, "RaceClose": raceCloseSettle, "RaceIssue": raceCloseIssue, "RaceFence": raceFence, "RaceEnd": raceEnd, "Crash": crashBetweenSteps,
	})
}

// mintEnd is the time after the issue by which the mint of an intent must have ended.
const mintEnd = 30 * time.Second

// Intent returns an intent at provider "cloud" with every member of its Upstream that can
// be set by then.
func Intent(taskID string) broker.Lease {
	l := Lease(taskID)
	l.Provider, l.Class, l.State = "cloud", provider.ClassEventual, broker.LeaseIntent
	l.Upstream = &broker.Upstream{Bound: 60, DiesAt: l.ExpiresAt.Add(time.Hour), NextAt: l.IssuedAt.Add(mintEnd)}
	return l
}

// intent issues an intent.
func (t *storeTest) intent(taskID string) broker.Lease {
	t.Helper()
	return t.issue(Intent(taskID))
}

// lived returns the move after a successful mint of l.
func lived(l broker.Lease) *broker.LeaseMove {
	up := *l.Upstream
	up.NextAt, up.Handle = l.ExpiresAt, "v1.key1."+l.ID
	return &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt.Add(time.Second), Upstream: up}
}

// live issues a live lease.
func (t *storeTest) live(taskID string) broker.Lease {
	t.Helper()
	l := t.intent(taskID)
	m := lived(l)
	t.want("settle", t.settle(*m), nil)
	l.State, l.Upstream = broker.LeaseLive, &m.Upstream
	return l
}

// pending issues a lease whose revocation is pending since at.
func (t *storeTest) pending(taskID string, at time.Time) broker.Lease {
	t.Helper()
	l := t.live(taskID)
	t.want("end", t.end(l.ID, broker.LeaseRevoking, at), nil)
	l.State, l.RevokedAt, l.RevokedBy, l.Upstream.NextAt = broker.LeaseRevoking, at, "ops", at
	return l
}

func (t *storeTest) settle(m broker.LeaseMove, entries ...audit.Entry) error {
	return t.Store.Append(t.Context(), broker.Record{SettleLease: &m, Entries: entries})
}

func (t *storeTest) end(id string, s broker.LeaseState, at time.Time) error {
	return t.Store.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: "ops", At: at}})
}

func (t *storeTest) close(task string, at time.Time) {
	t.Helper()
	t.append(broker.Record{MoveTask: closing(task, at)})
}

// take claims for a minute.
func (t *storeTest) take(now time.Time, n int) []broker.Claimed {
	t.Helper()
	got, err := t.Store.Take(t.Context(), "cloud", now, now.Add(time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ids(cs []broker.Claimed) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}

// shown returns l as in a listing: without its handle.
func shown(l broker.Lease) broker.Lease {
	if l.Upstream != nil {
		up := *l.Upstream
		up.Handle, l.Upstream = "", &up
	}
	return l
}
