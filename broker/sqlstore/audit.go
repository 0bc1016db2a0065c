package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// auditStore reads the audit log and its checkpoints.
type auditStore struct {
	writer string
	com    *committer
	engine *engine
}

const (
	entryColumns = "writer, seq, at, kind, actor, task_id, lease_id, request_id, data, prev, hash"
	entryWidth   = 11
	insertEntry  = "INSERT INTO audit_entries (" + entryColumns + ") VALUES"
)

func appendEntry(args []any, e *audit.Entry) []any {
	return append(args, e.Writer, e.Seq, millis(e.At), e.Kind, e.Actor, e.TaskID, e.LeaseID, e.RequestID, string(e.Data), e.Prev, e.Hash)
}

func scanEntry(row scan) (audit.Entry, error) {
	var e audit.Entry
	var at int64
	var data string
	err := row(&e.Writer, &e.Seq, &at, &e.Kind, &e.Actor, &e.TaskID, &e.LeaseID, &e.RequestID, &data, &e.Prev, &e.Hash)
	e.At = fromMillis(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return e, err
}

// Entries implements broker.Audit. One statement gives one consistent view: an export
// holds every chain up to the same moment. Read checkpoints before entries; otherwise a
// checkpoint may be ahead of the export. The connection is in use until the sequence
// ends.
func (a *auditStore) Entries(ctx context.Context, f broker.EntryFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		text, args, err := entriesText(f)
		if err == nil {
			err = a.com.flushed(ctx, f.Kind)
		}
		if err != nil {
			yield(audit.Entry{}, fmt.Errorf("entries: %w", err))
			return
		}
		from := a.engine.read()
		if f.Limit == 0 || f.Limit > maxLimit {
			from.db = a.engine.stream
		}
		for e, err := range each(ctx, from, text, args, scanEntry) {
			if err != nil {
				err = fmt.Errorf("entries: %w", a.engine.explain(err))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func entriesText(f broker.EntryFilter) (string, []any, error) {
	var w where
	for _, by := range [...]struct{ column, id string }{{"task_id", f.TaskID}, {"lease_id", f.LeaseID}, {"request_id", f.RequestID}} {
		if by.id != "" {
			w.add(by.column+" = ? AND "+by.column+" <> ''", by.id) // the second condition matches the partial index
		}
	}
	if strings.HasSuffix(f.Kind, ".") {
		w.add("substr(kind, 1, ?) = ?", len(f.Kind), f.Kind)
	} else if w.equal("kind", f.Kind); f.Kind != "" && f.Kind != audit.LeaseIssued {
		w.add("kind <> 'lease.issued'") // matches the partial index
	}
	w.equal("actor", f.Actor)
	w.equal("writer", f.Writer)
	if f.AfterSeq != 0 {
		if f.Writer == "" {
			return "", nil, errors.New("AfterSeq needs Writer")
		}
		w.add("seq > ?", f.AfterSeq)
	}
	if !f.From.IsZero() {
		w.add("at >= ?", millis(f.From))
	}
	if !f.To.IsZero() {
		w.add("at < ?", millis(f.To))
	}
	dir := ""
	if f.Desc {
		dir = " DESC"
	}
	text := "SELECT " + entryColumns + " FROM audit_entries" + w.String() + " ORDER BY at" + dir + ", writer" + dir + ", seq" + dir
	if f.Limit < 0 {
		return "", nil, errors.New("the limit is negative; use 0 for no limit")
	}
	if f.Limit > 0 {
		text += " LIMIT " + strconv.Itoa(f.Limit)
	}
	return text, w.args, nil
}

// Heads implements broker.Audit.
func (a *auditStore) Heads(ctx context.Context) ([]audit.Entry, error) {
	if err := a.com.flushed(ctx); err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	columns := "e." + strings.ReplaceAll(entryColumns, ", ", ", e.")
	out, err := collect(ctx, a.engine.read(), "SELECT "+columns+" FROM audit_writers w JOIN audit_entries e ON e.writer = w.writer "+
		"AND e.seq = (SELECT max(seq) FROM audit_entries WHERE writer = w.writer) ORDER BY w.started_at, w.writer", nil, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("heads: %w", a.engine.explain(err))
	}
	return out, nil
}

// Durable implements broker.Audit.
func (a *auditStore) Durable() (string, audit.Head, error) {
	d := a.com.durable.Load()
	return a.writer, d.head, d.lost
}

// Checkpoints implements broker.Audit.
func (a *auditStore) Checkpoints(ctx context.Context) ([]audit.Checkpoint, error) {
	out, err := collect(ctx, a.engine.read(), "SELECT at, heads, jws FROM checkpoints ORDER BY at, digest", nil, scanCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", a.engine.explain(err))
	}
	return out, nil
}

var errDamaged = errors.New("the row was changed or damaged: compare the table checkpoints with a backup")

// scanCheckpoint reads a row of the table checkpoints. SQLite does not enforce the type of a column.
func scanCheckpoint(row scan) (audit.Checkpoint, error) {
	var c audit.Checkpoint
	var at any
	var heads string
	if err := row(&at, &heads, &c.JWS); err != nil {
		return c, err
	}
	millis, is := at.(int64)
	if c.At = fromMillis(millis); !is || !audit.Writable(c.At) {
		return c, fmt.Errorf("the time %q of a checkpoint is not a whole number of milliseconds in the years 1970 to 9999: %w", fmt.Sprint(at), errDamaged)
	}
	if err := json.Unmarshal([]byte(heads), &c.Heads); err != nil {
		return c, fmt.Errorf("the heads of the checkpoint of %s cannot be read (%w): %w", c.At.Format(time.RFC3339), err, errDamaged)
	}
	if len(c.Heads) == 0 {
		return c, fmt.Errorf("the checkpoint of %s has no heads: %w", c.At.Format(time.RFC3339), errDamaged)
	}
	return c, nil
}

// Unsigned implements broker.Audit. It stops reading when it has found every head.
func (a *auditStore) Unsigned(ctx context.Context, heads map[string]audit.Head, valid func(audit.Checkpoint) bool) (map[string]audit.Head, error) {
	rest := maps.Clone(heads)
	for c, err := range each(ctx, a.engine.read(), "SELECT at, heads, jws FROM checkpoints ORDER BY at DESC, digest DESC LIMIT "+strconv.Itoa(broker.SearchedCheckpoints), nil, readableCheckpoint) {
		if err != nil {
			return nil, fmt.Errorf("checkpoints: %w", a.engine.explain(err))
		}
		names := func(writer string, h audit.Head) bool { return c.Heads[writer] == h }
		for writer, h := range rest {
			if names(writer, h) {
				if valid(c) {
					maps.DeleteFunc(rest, names)
				}
				break
			}
		}
		if len(rest) == 0 {
			break
		}
	}
	return rest, nil
}

// readableCheckpoint is scanCheckpoint, except that it returns an empty checkpoint for a damaged row, so
// that such a row does not prevent new checkpoints.
func readableCheckpoint(row scan) (audit.Checkpoint, error) {
	c, err := scanCheckpoint(row)
	if errors.Is(err, errDamaged) {
		return audit.Checkpoint{}, nil
	}
	return c, err
}

// AddCheckpoint implements broker.Audit. Adding the same checkpoint twice is no error.
func (a *auditStore) AddCheckpoint(ctx context.Context, c audit.Checkpoint) error {
	heads, err := json.Marshal(c.Heads)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if c.JWS == "" || c.At.IsZero() || storable(c.JWS) != nil {
		return errors.New("checkpoint: it needs a time and a signature")
	}
	sum := sha256.Sum256([]byte(c.JWS))
	work := func(ctx context.Context, s *session, _ *unit) error {
		_, err := s.exec(ctx, "INSERT INTO checkpoints (digest, at, heads, jws) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
			hex.EncodeToString(sum[:]), millis(c.At), string(heads), c.JWS)
		return err
	}
	if err := a.com.do(ctx, &unit{work: work}); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// entryWindow is the part of the audit log that a page reads; see leaseWindow.
type entryWindow struct {
	in, rest where
	order    string
}

// EntryList implements broker.Listing.
func (a *auditStore) EntryList(ctx context.Context, q broker.EntryQuery) (broker.EntrySlice, error) {
	if q.Limit < 1 || q.Limit > maxLimit || q.Look <= q.Limit || (q.FirstSeq != 0 || q.LastSeq != 0) && q.Writer == "" {
		return broker.EntrySlice{}, errors.New("entry list: the query needs a Limit of 1 to 1000, a Look above Limit, and a Writer when FirstSeq or LastSeq is set")
	}
	if err := a.com.flushed(ctx, q.Kinds...); err != nil {
		return broker.EntrySlice{}, fmt.Errorf("entry list: %w", err)
	}
	w := entriesWindow(q)
	look := q.Look
	if len(w.rest.conds) == 0 {
		look = q.Limit + 1
	}
	found, err := collect(ctx, a.engine.read(), w.text(look, q.Limit+1), append(slices.Clone(w.in.args), w.rest.args...), scanEntry)
	out := broker.EntrySlice{Entries: found}
	switch {
	case err != nil:
	case len(found) > q.Limit:
		out.Entries, out.More, out.Stop = found[:q.Limit], true, entryPlace(found[q.Limit-1])
	case len(w.rest.conds) > 0:
		var ends []audit.Entry
		ends, err = collect(ctx, a.engine.read(), "SELECT "+entryColumns+" FROM audit_entries"+w.in.String()+" ORDER BY "+w.order+" LIMIT 2 OFFSET "+strconv.Itoa(look-1), w.in.args, scanEntry)
		if len(ends) == 2 {
			out.Stop, out.More, out.Short = entryPlace(ends[0]), true, true
		}
	}
	if err != nil {
		return broker.EntrySlice{}, fmt.Errorf("entry list: %w", a.engine.explain(err))
	}
	if q.Back {
		slices.Reverse(out.Entries)
	}
	return out, nil
}

func entryPlace(e audit.Entry) broker.EntryPlace {
	return broker.EntryPlace{At: e.At, Writer: e.Writer, Seq: e.Seq}
}

func (w *entryWindow) text(look, limit int) string {
	return "SELECT " + entryColumns + " FROM (SELECT " + entryColumns + " FROM audit_entries" + w.in.String() + " ORDER BY " + w.order + " LIMIT " + strconv.Itoa(look) + ") e" +
		w.rest.String() + " ORDER BY " + w.order + " LIMIT " + strconv.Itoa(limit)
}

// entriesWindow chooses the index: the first applicable one in the order of fewest
// matches.
func entriesWindow(q broker.EntryQuery) *entryWindow {
	w := &entryWindow{}
	indexed := q.Writer != ""
	if indexed {
		w.in.add("writer = ? AND seq >= ? AND seq <= ?", q.Writer, q.FirstSeq, q.LastSeq)
	}
	for _, by := range [...]struct{ column, id string }{{"lease_id", q.LeaseID}, {"request_id", q.RequestID}, {"task_id", q.TaskID}} {
		switch {
		case by.id == "":
		case indexed:
			w.rest.equal(by.column, by.id)
		default:
			w.in.add(by.column+" = ? AND "+by.column+" <> ''", by.id) // the second condition matches the partial index
			indexed = true
		}
	}
	if len(q.Kinds) == 1 && !indexed && !strings.HasSuffix(q.Kinds[0], ".") && q.Kinds[0] != audit.LeaseIssued {
		w.in.add("kind = ? AND kind <> 'lease.issued'", q.Kinds[0])
	} else {
		w.kinds(q.Kinds)
	}
	w.rest.equal("actor", q.Actor)
	if !q.From.IsZero() {
		w.in.add("at >= ?", millis(q.From))
	}
	if !q.To.IsZero() {
		w.in.add("at < ?", millis(q.To))
	}
	op, dir := " < ", " DESC"
	if q.Oldest != q.Back {
		op, dir = " > ", ""
	}
	if p := q.Place; p.Writer != "" {
		w.in.add("(at, writer, seq)"+op+"(?, ?, ?)", millis(p.At), p.Writer, p.Seq)
	}
	w.order = "at" + dir + ", writer" + dir + ", seq" + dir
	return w
}

func (w *entryWindow) kinds(kinds []string) {
	if len(kinds) == 0 {
		return
	}
	var any where
	for _, k := range kinds {
		if strings.HasSuffix(k, ".") {
			any.add("substr(kind, 1, "+strconv.Itoa(len(k))+") = ?", k)
		} else {
			any.add("kind = ?", k)
		}
	}
	w.rest.add("("+strings.Join(any.conds, " OR ")+")", any.args...)
}
