package storetest

import (
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// RunLane runs every sentence of the contract of broker.Lane, and of what a Record
// does to a lease with an Upstream.
func RunLane(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*journalTest){
		"Issue": issueUpstream, "IssueRefused": issueUpstreamRefused,
		"Take": take, "TakeClaims": takeClaims, "TakeTurns": takeTurns, "TakeTrees": takeTrees, "TakeThousands": takeThousands, "TakeBounds": takeBounds,
		"SettleLife": settleLife, "SettleFence": settleFence, "SettleFinal": settleFinal, "SettleOnce": settleOnce, "SettleExpiry": settleExpiry,
		"SettleHandle": settleHandle, "SettleErases": settleErases, "SettleAgain": settleAgain, "SettleRefused": settleRefused,
		"Close": closeMoves, "CloseThenSettle": closeThenSettle, "CloseExpired": closeExpired, "End": endUpstream, "EndNarrowed": endNarrowed,
		"Listings": upstreamListings, "Derived": upstreamDerived, "Owing": owing, "Sealed": sealed, "Reseal": reseal,
		"RaceTake": raceTake, "RaceClose": raceCloseSettle, "RaceIssue": raceCloseIssue, "RaceFence": raceFence, "RaceEnd": raceEnd, "Crash": crashBetweenSteps,
	})
}

// mintEnd is how long after its issue the mint of an intent must have ended.
const mintEnd = 30 * time.Second

// Intent is an intent at provider "cloud" with every member of its Upstream that
// can be set by then.
func Intent(taskID string) broker.Lease {
	l := Lease(taskID)
	l.Provider, l.Class, l.State = "cloud", provider.ClassEventual, broker.LeaseIntent
	l.Upstream = &broker.Upstream{Bound: 60, DiesAt: l.ExpiresAt.Add(time.Hour), NextAt: l.IssuedAt.Add(mintEnd)}
	return l
}

// intent issues one.
func (t *journalTest) intent(taskID string) broker.Lease {
	t.Helper()
	return t.issue(Intent(taskID))
}

// lived makes the move that ends the mint of l well.
func lived(l broker.Lease) *broker.LeaseMove {
	up := *l.Upstream
	up.NextAt, up.Handle = l.ExpiresAt, "v1.key1."+l.ID
	return &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt.Add(time.Second), Upstream: up}
}

// live issues a lease that is live.
func (t *journalTest) live(taskID string) broker.Lease {
	t.Helper()
	l := t.intent(taskID)
	m := lived(l)
	t.want("settle", t.settle(*m), nil)
	l.State, l.Upstream = broker.LeaseLive, &m.Upstream
	return l
}

// owed issues a lease whose end is owed since at.
func (t *journalTest) owed(taskID string, at time.Time) broker.Lease {
	t.Helper()
	l := t.live(taskID)
	t.want("end", t.end(l.ID, broker.LeaseRevoking, at), nil)
	l.State, l.RevokedAt, l.RevokedBy, l.Upstream.NextAt = broker.LeaseRevoking, at, "ops", at
	return l
}

func (t *journalTest) settle(m broker.LeaseMove, entries ...audit.Entry) error {
	return t.Journal.Append(t.Context(), broker.Record{SettleLease: &m, Entries: entries})
}

func (t *journalTest) end(id string, s broker.LeaseState, at time.Time) error {
	return t.Journal.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: "ops", At: at}})
}

func (t *journalTest) close(task string, at time.Time) {
	t.Helper()
	t.append(broker.Record{MoveTask: closing(task, at)})
}

// take claims for a minute.
func (t *journalTest) take(now time.Time, n int) []broker.Claimed {
	t.Helper()
	got, err := t.Journal.Take(t.Context(), "cloud", now, now.Add(time.Minute), n)
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

// shown is l as a listing shows it: without its handle.
func shown(l broker.Lease) broker.Lease {
	if l.Upstream != nil {
		up := *l.Upstream
		up.Handle, l.Upstream = "", &up
	}
	return l
}
