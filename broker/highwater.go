package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// A high-water mark is a checkpoint of the newest entries of the audit log that is kept outside the
// database. A database that was lost, or restored from an older backup, lacks its newest entries, so that
// every mark made since names an entry that is not there.

// MarkStore keeps high-water marks outside the database, each by the id of the process run that made it.
type MarkStore interface {
	Marks(ctx context.Context) (map[string][]byte, error)
	// PutMark replaces the mark of a writer; a reader sees the old one or the new one.
	PutMark(ctx context.Context, writer string, mark []byte) error
	DropMark(ctx context.Context, writer string) error
}

const (
	// markEvery is the time between two marks while the audit log grows. What is committed later than
	// that before a kill can be lost unseen.
	markEvery = 500 * time.Millisecond
	// markHeads bounds how many chains a mark names, those with the newest entries first.
	markHeads = 32
	// markKept is how long the mark of another process run stays once a newer one covers it: a replica
	// that runs writes its own again.
	markKept = 10 * time.Minute
)

// MissingEntry is an entry that a high-water mark names and the database does not have.
type MissingEntry struct {
	Kept   string    `json:"kept"` // the MarkStore that has the mark
	MadeBy string    `json:"made_by"`
	MadeAt time.Time `json:"made_at"`
	Writer string    `json:"writer,omitempty"` // the chain; "" when the mark itself cannot be trusted
	Seq    int64     `json:"seq,omitempty"`
	Has    int64     `json:"has"` // where that chain ends in the database; 0 = it is not there
	Why    string    `json:"why"`
}

// LossError says that the database lacks entries that were durable. It wraps ErrMissing.
type LossError struct{ Missing []MissingEntry }

// Error implements error.
func (e *LossError) Error() string {
	m := e.Missing[0]
	if m.Writer == "" {
		return fmt.Sprintf("the high-water mark %s of %s (%s) cannot be used: %s", m.MadeBy, m.Kept, m.MadeAt.Format(time.RFC3339), m.Why)
	}
	text := fmt.Sprintf("%v: chain %s ends at seq %d, and the high-water mark of %s in %s names seq %d: %s",
		ErrMissing, m.Writer, m.Has, m.MadeAt.Format(time.RFC3339), m.Kept, m.Seq, m.Why)
	if more := len(e.Missing) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap implements errors.Is.
func (e *LossError) Unwrap() error { return ErrMissing }

// FindMissing compares the database with every mark that was made after the last loss was accepted; known
// are the public keys of every signing key. accepted is when that was, zero = never.
func FindMissing(ctx context.Context, a Audit, stores map[string]MarkStore, known jose.KeySet) (missing []MissingEntry, accepted time.Time, err error) {
	for e, err := range a.Entries(ctx, EntryFilter{Kind: audit.LossAccepted, Desc: true, Limit: 1}) {
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

// compareMark returns what one mark names and the database, whose chains end at ends, does not have.
func compareMark(ctx context.Context, a Audit, ends map[string]audit.Head, text []byte, accepted time.Time, known jose.KeySet) (missing []MissingEntry, err error) {
	var mark audit.Checkpoint
	if err := mark.UnmarshalJSON(text); err != nil {
		return []MissingEntry{{Why: err.Error()}}, nil
	}
	if !accepted.IsZero() && !mark.At.After(accepted) {
		return nil, nil
	}
	if err := mark.Verify(known); err != nil {
		return []MissingEntry{{MadeAt: mark.At, Why: "it is not signed by a key of this ebb (if a file sign-*.key is missing, restore it): " + err.Error()}}, nil
	}
	for writer, want := range mark.Heads {
		end := ends[writer]
		if end == want {
			continue
		}
		why := "it is not there"
		if end.Seq >= want.Seq {
			same, err := hasEntry(ctx, a, writer, want)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			why = "another entry has its place"
		}
		missing = append(missing, MissingEntry{MadeAt: mark.At, Writer: writer, Seq: want.Seq, Has: end.Seq, Why: why})
	}
	return missing, nil
}

// hasEntry reports whether the entry at a place of a chain has this hash.
func hasEntry(ctx context.Context, a Audit, writer string, want audit.Head) (bool, error) {
	for e, err := range a.Entries(ctx, EntryFilter{Writer: writer, AfterSeq: want.Seq - 1, Limit: 1}) {
		return err == nil && e.Seq == want.Seq && e.Hash == want.Hash, err
	}
	return false, nil
}

// openMarks refuses a database that lacks entries, and learns since when tokens count.
func (b *Broker) openMarks(ctx context.Context) error {
	missing, accepted, err := FindMissing(ctx, b.cfg.Journal, b.cfg.Marks, b.cfg.KnownKeys)
	if err != nil {
		return fmt.Errorf("comparing the database with its high-water marks: %w", err)
	}
	if len(missing) > 0 {
		return &LossError{missing}
	}
	b.tombs.before = accepted
	return nil
}

// lossFound closes ebb for good: only a restart compares anew.
func (b *Broker) lossFound(ctx context.Context, err error) {
	if b.missing.CompareAndSwap(nil, &err) {
		b.down.Store(true)
		b.cuts.tell(Cutter.Doubt)
		b.cfg.Logger.ErrorContext(ctx, "the database lacks entries that were durable; nothing is served until ebb is restarted", "error", err)
	}
}

// lacks returns why this process serves nothing any more; nil = it does.
func (b *Broker) lacks() error {
	if err := b.missing.Load(); err != nil {
		return *err
	}
	return nil
}

// marking is what this process knows of its own mark.
type marking struct {
	others []audit.Entry // newest entries of all chains, as of the last checkpoint
	last   audit.Head    // that the mark names of this process run's chain
	grown  bool          // others has changed since
	failed bool          // the last mark could not be written everywhere
}

// noteHeads keeps what the next mark names of other chains, and compares it with what this process has
// signed before.
func (b *Broker) noteHeads(ctx context.Context, heads []audit.Entry) error {
	now := map[string]audit.Head{}
	for _, e := range heads {
		now[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	for writer, was := range b.signed {
		if is := now[writer]; is.Seq < was.Seq || is.Seq == was.Seq && is.Hash != was.Hash {
			err := fmt.Errorf("%w: chain %s ends at seq %d, and this process has signed seq %d of it", ErrMissing, writer, is.Seq, was.Seq)
			b.lossFound(ctx, err)
			return err
		}
	}
	newest := slices.SortedFunc(slices.Values(heads), func(x, y audit.Entry) int { return y.At.Compare(x.At) })
	b.markMu.Lock()
	defer b.markMu.Unlock()
	b.marking.others = newest[:min(len(newest), markHeads)]
	b.marking.grown = true
	return nil
}

// keepMark writes the high-water mark when the audit log has grown. The mark names durable entries alone:
// it may lag behind the database and never leads it. A mark that cannot be written holds up nothing.
func (b *Broker) keepMark(ctx context.Context) {
	writer, last, err := b.cfg.Journal.Durable()
	if err != nil {
		b.lossFound(ctx, err)
	}
	b.markMu.Lock()
	defer b.markMu.Unlock()
	m := &b.marking
	if len(b.cfg.Marks) == 0 || b.lacks() != nil || last.Seq == 0 || last == m.last && !m.grown && !m.failed {
		return
	}
	heads := map[string]audit.Head{writer: last}
	for _, e := range m.others {
		if e.Writer != writer {
			heads[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
		}
	}
	err = b.putMark(ctx, writer, heads)
	if err != nil && !m.failed {
		b.cfg.Logger.WarnContext(ctx, "the high-water mark of the audit log was not written: until it is, a database that loses its end goes unnoticed", "error", err)
	}
	m.last, m.grown, m.failed = last, false, err != nil
}

func (b *Broker) putMark(ctx context.Context, writer string, heads map[string]audit.Head) error {
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return err
	}
	mark, err := audit.SignCheckpoint(signer, kid, b.now(), heads)
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
	for name, s := range b.cfg.Marks {
		if err := s.PutMark(ctx, writer, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// dropMarks removes the marks of earlier process runs, which the one of this run covers.
func (b *Broker) dropMarks(ctx context.Context) {
	b.markMu.Lock()
	written := b.marking.last.Seq > 0 && !b.marking.failed
	b.markMu.Unlock()
	own, _, err := b.cfg.Journal.Durable()
	if !written || err != nil || b.lacks() != nil {
		return
	}
	for name, s := range b.cfg.Marks {
		marks, err := s.Marks(ctx)
		for by, text := range marks {
			var mark audit.Checkpoint
			if by != own && mark.UnmarshalJSON(text) == nil && b.now().Sub(mark.At) > markKept && err == nil {
				err = s.DropMark(ctx, by)
			}
		}
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "old high-water marks stay", "kept", name, "error", err)
		}
	}
}

// AcceptLoss puts on the audit log that an operator goes on with a database that lacks these entries. From
// then on every task, lease and token that is older is refused.
func AcceptLoss(ctx context.Context, j Journal, missing []MissingEntry, by, reason string, now time.Time) error {
	const named = 64 // the rest is counted
	data, err := json.Marshal(map[string]any{"missing": missing[:min(len(missing), named)], "count": len(missing), "by": by, "reason": reason})
	if err != nil {
		return err
	}
	return j.Append(ctx, Record{Entries: []audit.Entry{{At: now, Kind: audit.LossAccepted, Actor: self, Data: data}}})
}
