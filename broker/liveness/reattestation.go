package liveness

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Believed returns until when evidence is valid. With a re-attestation interval, a document
// that can be presented again counts from the time it was made: presenting it again, or keeping
// it for later, does not make the sandbox fresher.
func (sw *SandboxWatch) Believed(id attest.Identity) time.Time {
	until := id.NotAfter
	if l := sw.liveness[id.Attestor]; l.Reattest > 0 && id.TaskID == "" {
		from := sw.clock.Now()
		if !id.MadeAt.IsZero() && id.MadeAt.Before(from) {
			from = id.MadeAt
		}
		if end := from.Add(l.Reattest); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return until
}

// Stale refuses evidence that is older than its attestor's re-attestation interval.
func (sw *SandboxWatch) Stale(id attest.Identity) error {
	l := sw.liveness[id.Attestor]
	if l.Reattest == 0 || id.TaskID != "" || id.MadeAt.IsZero() || sw.clock.Now().Before(id.MadeAt.Add(l.Reattest)) {
		return nil
	}
	return attest.Reject(attest.ReasonExpired, "the evidence is older than the re-attestation interval of its attestor; get a new one", nil)
}

// endsOnMissedAttestation reports whether a missed re-attestation deadline ends tasks, for any attestor.
func (sw *SandboxWatch) endsOnMissedAttestation() bool {
	for _, l := range sw.liveness {
		if l.OnMissedAttestation == broker.ActionComplete {
			return true
		}
	}
	return false
}

// Attested records fresh evidence of a request, for all replicas to read, at most once in a
// quarter of the re-attestation interval. Evidence presented to enrol is recorded as
// sandbox.token.
func (sw *SandboxWatch) Attested(ctx context.Context, taskID string, id attest.Identity, until time.Time) {
	l := sw.liveness[id.Attestor]
	if l.OnMissedAttestation == broker.ActionComplete && id.TaskID == "" && sw.deadlines.grows(taskID, until, l.Reattest/4) {
		sw.noteAttested(ctx, taskID, id.Attestor, until)
	}
}

func (sw *SandboxWatch) noteAttested(ctx context.Context, taskID, attestor string, until time.Time) {
	sw.log.Note(ctx, sw.log.TaskEntry(audit.SandboxAttested, broker.SandboxID(taskID), taskID, map[string]any{"attestor": attestor, "until": until}))
}

// maxMissed bounds the tasks that are checked for a missed deadline, and ended, at one time.
// After an outage of an attestor it may be all tasks, and new ones must still be watched.
const maxMissed = 16

// reattestGrace allows for running requests and for the clocks of replicas.
const reattestGrace = 5 * time.Second

func (sw *SandboxWatch) attestationMissed(until time.Time) bool {
	return sw.clock.Sure().After(until.Add(reattestGrace))
}

// mayHaveMissedAttestation reports whether the database must be read for a sandbox's last evidence, as far
// as this process knows. It also records evidence that this process has not recorded yet,
// before other replicas read it.
func (sw *SandboxWatch) mayHaveMissedAttestation(ctx context.Context, t broker.Task) bool {
	l := sw.liveness[t.Sandbox.Attestor]
	if l.OnMissedAttestation != broker.ActionComplete {
		return false
	}
	if until, pending := sw.deadlines.pending(t.ID, sw.clock.Now().Add(2*rewatch)); pending {
		sw.noteAttested(ctx, t.ID, t.Sandbox.Attestor, until)
	}
	return sw.attestationMissed(t.Sandbox.At.Add(l.Reattest)) && sw.attestationMissed(sw.deadlines.until(t.ID))
}

// endMissed ends a task whose sandbox missed its re-attestation deadline.
func (sw *SandboxWatch) endMissed(ctx context.Context, t broker.Task) {
	until, err := sw.lastAttested(ctx, t.ID)
	if err != nil {
		sw.logger.WarnContext(ctx, "the last attestation of a sandbox could not be read", "task_id", t.ID, "error", err)
		return
	}
	sw.deadlines.grows(t.ID, until, 0)
	if !sw.attestationMissed(until) {
		return
	}
	if _, err := sw.revoker.Close(ctx, t.ID, broker.TaskMove{Cause: broker.CauseMissedAttestation, By: kernel.Self, Reason: "no fresh evidence"}); err != nil {
		sw.logger.WarnContext(ctx, "a task with a missed re-attestation deadline could not be ended yet", "task_id", t.ID, "error", err)
	}
}

// lastAttested returns until when the newest recorded evidence is valid.
func (sw *SandboxWatch) lastAttested(ctx context.Context, taskID string) (time.Time, error) {
	var last time.Time
	for _, kind := range []string{audit.SandboxToken, audit.SandboxAttested} {
		for e, err := range sw.store.Entries(ctx, broker.EntryFilter{TaskID: taskID, Kind: kind, Limit: 1, Desc: true}) {
			if err != nil {
				return last, err
			}
			var data struct {
				Until time.Time `json:"until"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return last, err
			}
			if data.Until.After(last) {
				last = data.Until
			}
		}
	}
	return last, nil
}

// evidenceDeadlines tracks until when the evidence of tasks' sandboxes is valid, as far as this process
// knows, and how much of that is recorded.
type evidenceDeadlines struct {
	mu   sync.Mutex
	ends map[string]evidenceDeadline
}

type evidenceDeadline struct{ until, noted time.Time }

func (v *evidenceDeadlines) until(taskID string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ends[taskID].until
}

// grows extends the end. It reports whether the caller must record it: whether it is later than
// the recorded one by more than step.
func (v *evidenceDeadlines) grows(taskID string, until time.Time, step time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	had := v.ends[taskID]
	if until.After(had.until) {
		had.until = until
	}
	grows := until.Sub(had.noted) > step
	if grows {
		had.noted = until
	}
	v.ends[taskID] = had
	return grows
}

// pending returns an end that is not recorded, if the recorded one is before soon. The caller must
// record it.
func (v *evidenceDeadlines) pending(taskID string, soon time.Time) (until time.Time, pending bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	had, known := v.ends[taskID]
	if !known || !had.until.After(had.noted) || !had.noted.Before(soon) {
		return time.Time{}, false
	}
	had.noted = had.until
	v.ends[taskID] = had
	return had.until, true
}

func (v *evidenceDeadlines) keep(open map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.ends {
		if !open[id] {
			delete(v.ends, id)
		}
	}
}
