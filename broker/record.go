package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"ebb/broker/audit"
)

// self is the actor of what the broker does by itself.
const self = "ebb"

// entry drafts one line of the record. data must marshal to a JSON object and
// must not hold a secret.
func (b *Broker) entry(kind, actor string, data any) audit.Entry {
	e := audit.Entry{At: b.now(), Kind: kind, Actor: actor}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil { // a programming error: the line is worth more than its data
			raw, _ = json.Marshal(map[string]string{"unencodable": err.Error()})
		}
		if len(raw) > audit.MaxData { // whoever asks for very much must not stay off the record by it
			sum := sha256.Sum256(raw)
			raw, _ = json.Marshal(map[string]any{"omitted_bytes": len(raw), "omitted_sha256": hex.EncodeToString(sum[:])})
		}
		e.Data = raw
	}
	return e
}

// taskEntry drafts a line about a task.
func (b *Broker) taskEntry(kind, actor, taskID string, data any) audit.Entry {
	e := b.entry(kind, actor, data)
	e.TaskID = taskID
	return e
}

// strangersPerSecond bounds how many refusals of callers nobody knows are
// recorded: a flood of garbage must not become a flood of disk writes (I12). How
// many were left out is a metric.
const strangersPerSecond = 20

// unknown is the actor of an entry about somebody who was not authenticated.
const unknown = "unknown"

// note appends entries whose loss must not change an answer that is a refusal
// already; a failure is logged.
func (b *Broker) note(ctx context.Context, entries ...audit.Entry) {
	b.append(ctx, Record{Entries: entries})
}

// noteLate is note for what nobody waits for.
func (b *Broker) noteLate(ctx context.Context, e audit.Entry) {
	b.append(ctx, Record{Entries: []audit.Entry{e}, Late: true})
}

func (b *Broker) append(ctx context.Context, r Record) {
	entries := r.Entries
	if entries[0].Actor == unknown && !b.strangers.Allow() {
		b.m.unrecorded.Inc()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := b.cfg.Journal.Append(ctx, r); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "a refusal could not be recorded", "kind", entries[0].Kind, "error", err)
	}
}

// noteSeldom notes what a sandbox can make happen as often as it likes: once a
// minute for each kind and task, on each replica. What is left out is a metric.
func (b *Broker) noteSeldom(ctx context.Context, e audit.Entry) {
	key := e.Kind + " " + e.TaskID
	if last, known := b.noted.Get(key); known && e.At.Sub(last).Abs() < time.Minute {
		b.m.unrecorded.Inc()
		return
	}
	b.noted.Add(key, e.At)
	b.note(ctx, e)
}
