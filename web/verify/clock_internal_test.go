package verify

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/attest/dpop"
)

// jumping is a wall clock and a monotonic clock, set independently.
type jumping struct {
	wall   time.Time
	steady time.Duration
}

func (j *jumping) pass(d time.Duration) { j.wall, j.steady = j.wall.Add(d), j.steady+d }

func newJumping() (*jumping, *clock.Clock) {
	j := &jumping{wall: time.Unix(1_800_000_000, 0)}
	return j, clock.New(func() time.Time { return j.wall }, func() time.Duration { return j.steady })
}

func (j *jumping) claims(t *testing.T, m *MemoryReplay, key string, iat time.Time) bool {
	t.Helper()
	first, err := m.Claim(t.Context(), dpop.Proof{JKT: "k", ReplayKey: key, From: iat.Add(-time.Minute), Until: iat.Add(61 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// H60: a clock that is ahead for 2 s causes no lost proof and no refusal.
//
//ebb:invariant I4 After its fast clock is corrected, a resource server refuses only proofs of the time spans whose replay records were removed
func TestReplayClockAheadAndBack(t *testing.T) {
	t.Parallel()
	j, c := newJumping()
	m := newReplay(100, c)
	j.pass(time.Hour)
	used := j.wall
	if !j.claims(t, m, "used", used) {
		t.Fatal("refused")
	}
	j.wall = j.wall.Add(48 * time.Hour)
	j.pass(2 * time.Second)
	if !j.claims(t, m, "ahead", j.wall) {
		t.Error("refused while the clock is ahead")
	}
	j.wall = j.wall.Add(-48 * time.Hour)
	if j.claims(t, m, "used", used) {
		t.Error("a replay passed")
	}
	if !j.claims(t, m, "fresh", j.wall) {
		t.Error("a fresh proof is refused")
	}
}

// A clock that was ahead for long is corrected: new proofs pass at once, and
// proofs dropped meanwhile never do.
//
//ebb:invariant I4 After its fast clock is corrected, a resource server refuses only proofs of the time spans whose replay records were removed
func TestReplayClockAheadForLong(t *testing.T) {
	t.Parallel()
	j, c := newJumping()
	m := newReplay(100, c)
	j.pass(time.Hour)
	j.wall = j.wall.Add(48 * time.Hour)
	used := j.wall
	for range 10 {
		j.claims(t, m, "used", used)
		j.pass(time.Minute)
	}
	j.wall = j.wall.Add(-48 * time.Hour)
	if !j.claims(t, m, "fresh", j.wall) {
		t.Error("a fresh proof is refused")
	}
	j.pass(used.Sub(j.wall))
	if j.claims(t, m, "used", used) {
		t.Error("a replay passed")
	}
}

// Revocations stay in effect while the clock is ahead for a moment.
//
//ebb:invariant I4 A token stays revoked at a resource server while the server's clock briefly jumps ahead
func TestRevokedClockAheadAndBack(t *testing.T) {
	t.Parallel()
	j, c := newJumping()
	v := &Verifier{revoked: newRevoked(10), clock: c}
	v.heard([]Event{{TaskID: "tsk_dead", Until: j.wall.Add(time.Hour)}})
	j.wall = j.wall.Add(48 * time.Hour)
	j.pass(2 * time.Second)
	v.heard([]Event{{TaskID: "tsk_other", Until: j.wall.Add(time.Hour)}})
	j.wall = j.wall.Add(-48 * time.Hour)
	v.revoked.complete(j.wall, 0)
	if dead, known := v.revoked.judge(&Token{TaskID: "tsk_dead", IssuedAt: j.wall}, j.wall, time.Minute); !dead || !known {
		t.Errorf("dead %v, known %v", dead, known)
	}
	if dead, _ := v.revoked.judge(&Token{TaskID: "tsk_alive", IssuedAt: j.wall}, j.wall, time.Minute); dead {
		t.Error("what is alive is refused")
	}
}
