package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// Recorder builds audit entries, and appends those that are not part of another write.
type Recorder struct {
	store  broker.Store
	logger *slog.Logger
	m      *Metrics
	noted  *expirable.LRU[string, time.Time]

	clock *Timekeeper

	strangers *rate.Limiter
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (rc *Recorder) Open() {
	rc.strangers = rate.NewLimiter(strangersPerSecond, 10*strangersPerSecond)
}

// Self is the actor of the broker's own actions.
const Self = "ebb"

// NewEntry returns an audit entry. data must marshal to a JSON object and must not hold a
// secret.
func (rc *Recorder) NewEntry(kind, actor string, data any) audit.Entry {
	e := audit.Entry{At: rc.clock.Now(), Kind: kind, Actor: actor}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil { // a programming error: the entry is kept without its data
			raw, _ = json.Marshal(map[string]string{"unencodable": err.Error()})
		}
		if len(raw) > audit.MaxData { // a large request must not keep its entry out of the audit log
			sum := sha256.Sum256(raw)
			raw, _ = json.Marshal(map[string]any{"omitted_bytes": len(raw), "omitted_sha256": hex.EncodeToString(sum[:])})
		}
		e.Data = raw
	}
	return e
}

// TaskEntry returns an audit entry about a task.
func (rc *Recorder) TaskEntry(kind, actor, taskID string, data any) audit.Entry {
	e := rc.NewEntry(kind, actor, data)
	e.TaskID = taskID
	return e
}

// strangersPerSecond bounds how many refusals of unauthenticated callers are recorded: many
// invalid requests must not cause many disk writes (I12). A metric counts the others.
const strangersPerSecond = 20

// Unknown is the actor of an entry about an unauthenticated caller.
const Unknown = "unknown"

// Note appends entries about a refusal. If that fails the refusal stands, and the failure is
// logged.
func (rc *Recorder) Note(ctx context.Context, entries ...audit.Entry) {
	rc.append(ctx, broker.Record{Entries: entries})
}

// NoteLate is Note for entries that no caller waits for.
func (rc *Recorder) NoteLate(ctx context.Context, entries ...audit.Entry) {
	rc.append(ctx, broker.Record{Entries: entries, Late: true})
}

func (rc *Recorder) append(ctx context.Context, r broker.Record) {
	entries := r.Entries
	if entries[0].Actor == Unknown && !rc.strangers.Allow() {
		rc.m.Unrecorded.Inc()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := rc.store.Append(ctx, r); err != nil {
		rc.logger.ErrorContext(ctx, "audit entries could not be written", "kind", entries[0].Kind, "entries", len(entries), "error", err)
	}
}

// NoteSeldom notes an event that a sandbox can cause any number of times: once a minute for
// each kind and task, on each replica. A metric counts the others.
func (rc *Recorder) NoteSeldom(ctx context.Context, e audit.Entry) {
	key := e.Kind + " " + e.TaskID
	if last, known := rc.noted.Get(key); known && e.At.Sub(last).Abs() < time.Minute {
		rc.m.Unrecorded.Inc()
		return
	}
	rc.noted.Add(key, e.At)
	rc.Note(ctx, e)
}
