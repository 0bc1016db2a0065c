package durability

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
)

// AuditGuard signs checkpoints of the audit log and keeps high-water marks outside of the
// database, so that a database that lost entries is detected.
type AuditGuard struct {
	store        broker.Store
	keyDirectory KeyDirectory
	keys         *keys.Ring
	knownKeys    jose.KeySet
	logger       *slog.Logger
	marks        map[string]broker.MarkStore
	cuts         *kernel.Disconnects
	live         *kernel.LiveState
	revoked      *kernel.RevokedSet

	clock *kernel.Timekeeper
	log   *kernel.Recorder

	signedMu  sync.Mutex
	signed    map[string]audit.Head // heads of all chains at this process's last checkpoint
	signedBy  string                // id of the key of that checkpoint; "" = there was none
	namedKeys map[string]bool
	markMu    sync.Mutex
	marking   marking
	missing   atomic.Pointer[error]
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (ig *AuditGuard) Open() {
	ig.signed = map[string]audit.Head{}
}

const (
	// MarkEvery is the time between two marks while the audit log grows. Entries committed
	// after the last mark before a kill can be lost undetected.
	MarkEvery = 500 * time.Millisecond
	// markHeads is the largest number of chains in a mark: those with the newest entries.
	markHeads = 32
	// markKept is how long the mark of another process run is kept after a newer one covers it:
	// a running replica writes its own again.
	markKept = 10 * time.Minute
)

// MissingEntry is an entry that a high-water mark names and the database does not have.
type MissingEntry struct {
	Kept   string    `json:"kept"` // name of the broker.MarkStore that has the mark
	MadeBy string    `json:"made_by"`
	MadeAt time.Time `json:"made_at"`
	Writer string    `json:"writer,omitempty"` // the chain; "" when the mark itself cannot be trusted
	Seq    int64     `json:"seq,omitempty"`
	Has    int64     `json:"has"` // last seq of that chain in the database; 0 = the chain is missing
	Why    string    `json:"why"`
}

// LossError reports that the database lacks entries that were durable. It wraps ErrMissing.
type LossError struct{ Missing []MissingEntry }

// Error implements error.
func (e *LossError) Error() string {
	m := e.Missing[0]
	if m.Writer == "" {
		return fmt.Sprintf("the high-water mark %s of %s (%s) cannot be used: %s", m.MadeBy, m.Kept, m.MadeAt.Format(time.RFC3339), m.Why)
	}
	text := fmt.Sprintf("%v: chain %s ends at seq %d, and the high-water mark of %s in %s names seq %d: %s",
		broker.ErrMissing, m.Writer, m.Has, m.MadeAt.Format(time.RFC3339), m.Kept, m.Seq, m.Why)
	if more := len(e.Missing) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap implements errors.Is.
func (e *LossError) Unwrap() error { return broker.ErrMissing }

// FindMissing compares the database with every mark made after the last loss was accepted.
// known holds the public keys of every signing key. accepted is the time of that acceptance,
// zero = never.
func FindMissing(ctx context.Context, a broker.Audit, stores map[string]broker.MarkStore, known jose.KeySet) (missing []MissingEntry, accepted time.Time, err error) {
	for e, err := range a.Entries(ctx, broker.EntryFilter{Kind: audit.LossAccepted, Desc: true, Limit: 1}) {
		if err != nil {
			return nil, accepted, err
		}
		accepted = e.At
	}
	heads, err := a.Heads(ctx)
	if err != nil {
		return nil, accepted, err
	}
	ends := map[string]audit.Head{}
	for _, e := range heads {
		ends[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		marks, err := stores[name].Marks(ctx)
		if err != nil {
			return nil, accepted, fmt.Errorf("high-water marks in %s: %w", name, err)
		}
		for by, text := range marks {
			found, err := compareMark(ctx, a, ends, text, accepted, known)
			if err != nil {
				return nil, accepted, err
			}
			for _, m := range found {
				m.Kept, m.MadeBy = name, by
				missing = append(missing, m)
			}
		}
	}
	slices.SortFunc(missing, func(a, b MissingEntry) int {
		return cmp.Or(b.MadeAt.Compare(a.MadeAt), cmp.Compare(a.Kept, b.Kept), cmp.Compare(a.Writer, b.Writer))
	})
	return missing, accepted, nil
}

// compareMark returns the entries of one mark that the database lacks; ends holds the last
// entries of its chains.
func compareMark(ctx context.Context, a broker.Audit, ends map[string]audit.Head, text []byte, accepted time.Time, known jose.KeySet) (missing []MissingEntry, err error) {
	var mark audit.Checkpoint
	if err := mark.UnmarshalJSON(text); err != nil {
		return []MissingEntry{{Why: err.Error()}}, nil
	}
	if !accepted.IsZero() && !mark.At.After(accepted) {
		return nil, nil
	}
	if err := mark.Verify(known); err != nil {
		return []MissingEntry{{MadeAt: mark.At, Why: "the mark is not signed by a key of this ebb (if a file sign-*.key is missing, restore it): " + err.Error()}}, nil
	}
	for writer, want := range mark.Heads {
		end := ends[writer]
		if end == want {
			continue
		}
		why := "the entry is missing"
		if end.Seq >= want.Seq {
			same, err := hasEntry(ctx, a, writer, want)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			why = "another entry has this seq"
		}
		missing = append(missing, MissingEntry{MadeAt: mark.At, Writer: writer, Seq: want.Seq, Has: end.Seq, Why: why})
	}
	return missing, nil
}

// hasEntry reports whether the chain's entry with the seq of want has its hash.
func hasEntry(ctx context.Context, a broker.Audit, writer string, want audit.Head) (bool, error) {
	for e, err := range a.Entries(ctx, broker.EntryFilter{Writer: writer, AfterSeq: want.Seq - 1, Limit: 1}) {
		return err == nil && e.Seq == want.Seq && e.Hash == want.Hash, err
	}
	return false, nil
}

// OpenMarks refuses a database that lacks entries, and loads the time before which tokens are
// refused.
func (ig *AuditGuard) OpenMarks(ctx context.Context) error {
	missing, accepted, err := FindMissing(ctx, ig.store, ig.marks, ig.knownKeys)
	if err != nil {
		return fmt.Errorf("comparing the database with its high-water marks: %w", err)
	}
	if len(missing) > 0 {
		return &LossError{missing}
	}
	ig.revoked.Before = accepted
	return nil
}

// lossFound refuses all requests until a restart, which compares again.
func (ig *AuditGuard) lossFound(ctx context.Context, err error) {
	if ig.missing.CompareAndSwap(nil, &err) {
		ig.live.Incomplete.Store(true)
		ig.cuts.Tell(kernel.RevocationListener.Doubt)
		ig.logger.ErrorContext(ctx, "the database lacks entries that were durable; all requests are refused until ebb is restarted", "error", err)
	}
}

// Lacks returns why this process refuses all requests; nil = it serves.
func (ig *AuditGuard) Lacks() error {
	if err := ig.missing.Load(); err != nil {
		return *err
	}
	return nil
}

// marking is the state of this process's own mark.
type marking struct {
	others []audit.Entry // last entries of all chains at the last checkpoint
	last   audit.Head    // last entry of this process run's chain in the mark
	grown  bool          // others has changed since the last mark
	failed bool          // the last mark could not be written everywhere
}

// noteHeads stores the last entries of other chains for the next mark, and compares them with
// those at this process's last checkpoint.
func (ig *AuditGuard) noteHeads(ctx context.Context, heads []audit.Entry) error {
	now := map[string]audit.Head{}
	for _, e := range heads {
		now[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	for writer, was := range ig.signed {
		if is := now[writer]; is.Seq < was.Seq || is.Seq == was.Seq && is.Hash != was.Hash {
			err := fmt.Errorf("%w: chain %s ends at seq %d, and had seq %d at the last checkpoint of this process", broker.ErrMissing, writer, is.Seq, was.Seq)
			ig.lossFound(ctx, err)
			return err
		}
	}
	newest := slices.SortedFunc(slices.Values(heads), func(x, y audit.Entry) int { return y.At.Compare(x.At) })
	ig.markMu.Lock()
	defer ig.markMu.Unlock()
	ig.marking.others = newest[:min(len(newest), markHeads)]
	ig.marking.grown = true
	return nil
}

// KeepMark writes the high-water mark when the audit log has grown. The mark names durable
// entries only: it may lag behind the database and is never ahead of it. A failure to write it
// delays no request.
func (ig *AuditGuard) KeepMark(ctx context.Context) {
	writer, last, err := ig.store.Durable()
	if err != nil {
		ig.lossFound(ctx, err)
	}
	ig.markMu.Lock()
	defer ig.markMu.Unlock()
	m := &ig.marking
	if len(ig.marks) == 0 || ig.Lacks() != nil || last.Seq == 0 || last == m.last && !m.grown && !m.failed {
		return
	}
	heads := map[string]audit.Head{writer: last}
	for _, e := range m.others {
		if e.Writer != writer {
			heads[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
		}
	}
	err = ig.putMark(ctx, writer, heads)
	if err != nil && !m.failed {
		ig.logger.WarnContext(ctx, "the high-water mark of the audit log could not be written; until it is, a database that loses its newest entries is not detected", "error", err)
	}
	m.last, m.grown, m.failed = last, false, err != nil
}

func (ig *AuditGuard) putMark(ctx context.Context, writer string, heads map[string]audit.Head) error {
	signer, kid, _, err := ig.keys.Signer(ig.clock.Now())
	if err != nil {
		return err
	}
	mark, err := audit.SignCheckpoint(signer, kid, ig.clock.Now(), heads)
	if err != nil {
		return err
	}
	text, err := mark.MarshalJSON()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs []error
	for name, s := range ig.marks {
		if err := s.PutMark(ctx, writer, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// DropMarks removes the marks of earlier process runs, which the mark of this run covers.
func (ig *AuditGuard) DropMarks(ctx context.Context) {
	ig.markMu.Lock()
	written := ig.marking.last.Seq > 0 && !ig.marking.failed
	ig.markMu.Unlock()
	own, _, err := ig.store.Durable()
	if !written || err != nil || ig.Lacks() != nil {
		return
	}
	for name, s := range ig.marks {
		marks, err := s.Marks(ctx)
		for by, text := range marks {
			var mark audit.Checkpoint
			if by != own && mark.UnmarshalJSON(text) == nil && ig.clock.Sure().Sub(mark.At) > markKept && err == nil {
				err = s.DropMark(ctx, by)
			}
		}
		if err != nil {
			ig.logger.WarnContext(ctx, "old high-water marks could not be removed", "kept", name, "error", err)
		}
	}
}

// AcceptLoss records that an operator continues with a database that lacks these entries. From
// then on every task, lease and token from before the acceptance is refused.
func AcceptLoss(ctx context.Context, j broker.Store, missing []MissingEntry, by, reason string, now time.Time) error {
	const named = 64 // further entries are only counted
	data, err := json.Marshal(map[string]any{"missing": missing[:min(len(missing), named)], "count": len(missing), "by": by, "reason": reason})
	if err != nil {
		return err
	}
	return j.Append(ctx, broker.Record{Entries: []audit.Entry{{At: now, Kind: audit.LossAccepted, Actor: kernel.Self, Data: data}}})
}

// checkpointHeads is the largest number of chains in one checkpoint. A database has a chain for each
// process run.
const checkpointHeads = 1000

// Checkpoint signs the last entries of the chains and stores the signatures. With a new signing key
// it covers every chain, otherwise those that have grown since they were signed, by this process
// run or an earlier one. Without growth it does nothing.
func (ig *AuditGuard) Checkpoint(ctx context.Context) error {
	ig.signedMu.Lock()
	defer ig.signedMu.Unlock()
	signer, kid, _, err := ig.keys.Signer(ig.clock.Now())
	if err != nil {
		return err
	}
	if err := ig.noteKeys(ctx); err != nil {
		ig.logger.WarnContext(ctx, "the signing keys could not be recorded in the audit log", "error", err)
	}
	last, err := ig.store.Heads(ctx)
	if err != nil {
		return err
	}
	if err := ig.noteHeads(ctx, last); err != nil {
		return err
	}
	heads := map[string]audit.Head{}
	for _, e := range last {
		heads[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	var due map[string]audit.Head
	if ig.signedBy != kid {
		due, err = ig.unsigned(ctx, signer, kid, heads)
	} else {
		due = maps.Clone(heads)
		maps.DeleteFunc(due, func(writer string, h audit.Head) bool { return ig.signed[writer] == h })
	}
	if err != nil {
		return err
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(due)), checkpointHeads) {
		some := map[string]audit.Head{}
		for _, writer := range part {
			some[writer] = due[writer]
		}
		c, err := audit.SignCheckpoint(signer, kid, ig.clock.Now(), some)
		if err != nil {
			return err
		}
		if err := ig.store.AddCheckpoint(ctx, c); err != nil {
			return err
		}
	}
	maps.Copy(ig.signed, heads)
	ig.signedBy = kid
	return nil
}

// unsigned returns the heads that no recent checkpoint by this key names. Checkpoints by earlier keys do
// not count, because such a key may be lost or may have leaked. unsigned verifies the signatures:
// otherwise heads that a forged checkpoint names would stay unsigned.
func (ig *AuditGuard) unsigned(ctx context.Context, signer jose.Signer, kid string, heads map[string]audit.Head) (map[string]audit.Head, error) {
	key, err := jose.NewKey(kid, signer.Public())
	if err != nil {
		return nil, err
	}
	only, err := jose.NewKeySet(key)
	if err != nil {
		return nil, err
	}
	return ig.store.Unsigned(ctx, heads, func(c audit.Checkpoint) bool { return c.Verify(only) == nil })
}

// MarkFailed reports whether the last write of the high-water mark failed.
func (ig *AuditGuard) MarkFailed() bool {
	ig.markMu.Lock()
	defer ig.markMu.Unlock()
	return ig.marking.failed
}
