package broker

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"ebb/attest"
	"ebb/broker/audit"
)

// A sandbox whose attestor has Liveness.Reattest is believed for that long after
// each fresh piece of evidence: what it is given on it, its task token too, ends by
// then (I4), so that minting stops by itself. Ending the task for it is the
// business of this file.

// believed is until when evidence vouches. A document that can be shown again vouches
// from when it was made: the same one, or one that was kept for later, does not make
// the sandbox any fresher.
func (b *Broker) believed(id attest.Identity) time.Time {
	until := id.NotAfter
	if l := b.cfg.Liveness[id.Attestor]; l.Reattest > 0 && id.TaskID == "" {
		from := b.now()
		if !id.MadeAt.IsZero() && id.MadeAt.Before(from) {
			from = id.MadeAt
		}
		if end := from.Add(l.Reattest); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return until
}

// stale refuses evidence that was made longer ago than its attestor's is believed for.
func (b *Broker) stale(id attest.Identity) error {
	l := b.cfg.Liveness[id.Attestor]
	if l.Reattest == 0 || id.TaskID != "" || id.MadeAt.IsZero() || b.now().Before(id.MadeAt.Add(l.Reattest)) {
		return nil
	}
	return attest.Reject(attest.ReasonExpired, "the evidence was made too long ago for sandboxes that have to attest again; get a new one", nil)
}

// lapses reports whether any attestor's lapses end tasks.
func (b *Broker) lapses() bool {
	for _, l := range b.cfg.Liveness {
		if l.OnLapse == SequelComplete {
			return true
		}
	}
	return false
}

// attested puts fresh evidence that was shown with a request on the record, where
// all replicas find it, once in a quarter of the time that it vouches for. Evidence
// that was shown to enrol is there as sandbox.token.
func (b *Broker) attested(ctx context.Context, taskID string, id attest.Identity, until time.Time) {
	l := b.cfg.Liveness[id.Attestor]
	if l.OnLapse == SequelComplete && id.TaskID == "" && b.vouched.grows(taskID, until, l.Reattest/4) {
		b.noteAttested(ctx, taskID, id.Attestor, until)
	}
}

func (b *Broker) noteAttested(ctx context.Context, taskID, attestor string, until time.Time) {
	b.note(ctx, b.taskEntry(audit.SandboxAttested, sandboxOf(taskID), taskID, map[string]any{"attestor": attestor, "until": until}))
}

// maxLapsing bounds the tasks that are looked at for a lapse, and ended, at one time:
// after an outage of an attestor it may be all of them, and new ones wait to be watched.
const maxLapsing = 16

// lapseGrace is for what is under way, and for clocks of replicas.
const lapseGrace = 5 * time.Second

func (b *Broker) lapsed(until time.Time) bool { return b.now().After(until.Add(lapseGrace)) }

// mayHaveLapsed says whether it must be looked for the evidence of a sandbox, as far
// as this process has heard of it. What it has heard and left off the record, it puts
// there before other replicas look.
func (b *Broker) mayHaveLapsed(ctx context.Context, t Task) bool {
	l := b.cfg.Liveness[t.Sandbox.Attestor]
	if l.OnLapse != SequelComplete {
		return false
	}
	if until, owed := b.vouched.owed(t.ID, b.now().Add(2*rewatch)); owed {
		b.noteAttested(ctx, t.ID, t.Sandbox.Attestor, until)
	}
	return b.lapsed(t.Sandbox.At.Add(l.Reattest)) && b.lapsed(b.vouched.until(t.ID))
}

// lapse ends a task whose sandbox did not show fresh evidence in time.
func (b *Broker) lapse(ctx context.Context, t Task) {
	until, err := b.lastVouched(ctx, t.ID)
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "it could not be read when a sandbox last attested", "task_id", t.ID, "error", err)
		return
	}
	b.vouched.grows(t.ID, until, 0)
	if !b.lapsed(until) {
		return
	}
	if _, err := b.close(ctx, t.ID, TaskMove{Cause: CauseLapsed, By: self, Reason: "no fresh evidence"}); err != nil {
		b.cfg.Logger.WarnContext(ctx, "a task whose sandbox has lapsed could not be ended yet", "task_id", t.ID, "error", err)
	}
}

// lastVouched is until when the newest evidence on the record vouches.
func (b *Broker) lastVouched(ctx context.Context, taskID string) (time.Time, error) {
	var last time.Time
	for _, kind := range []string{audit.SandboxToken, audit.SandboxAttested} {
		for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{TaskID: taskID, Kind: kind, Limit: 1, Desc: true}) {
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

// vouchers is until when evidence vouches for the sandboxes of tasks, as far as
// this process has heard, and how much of that is on the record.
type vouchers struct {
	mu   sync.Mutex
	ends map[string]voucher
}

type voucher struct{ until, noted time.Time }

func (v *vouchers) until(taskID string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ends[taskID].until
}

// grows moves the end to a later moment, and says whether the caller has to put it on
// the record: whether it is later by more than step than what is there.
func (v *vouchers) grows(taskID string, until time.Time, step time.Duration) bool {
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

// owed is an end that is not on the record, when the one that is there comes before
// soon. The caller puts it there.
func (v *vouchers) owed(taskID string, soon time.Time) (until time.Time, owed bool) {
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

func (v *vouchers) keep(open map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.ends {
		if !open[id] {
			delete(v.ends, id)
		}
	}
}
