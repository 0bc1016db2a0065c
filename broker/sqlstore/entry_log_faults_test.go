package sqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
)

// logged opens a store with one entry in the database, followed by one entry for each lease that
// is in the log alone.
func logged(t *testing.T, leases ...string) (url string, s *sqlstore.Store) {
	t.Helper()
	url = sqlstoretest.SQLite(t)
	s = opened(t, owned(url).LateRows())
	appendAll(t, s, started())
	for _, id := range leases {
		appendAll(t, s, use(id))
	}
	return url, s
}

// inDatabase runs statements outside of the store. done ends the connection.
func inDatabase(t *testing.T, url string, texts ...string) (done func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	done = func() { _ = db.Close() }
	t.Cleanup(done)
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return done
}

// locked keeps the store from writing to its database until release is called.
func locked(t *testing.T, url string) (release func()) {
	t.Helper()
	return inDatabase(t, url, "BEGIN IMMEDIATE")
}

// refuses reports an error unless the log of the database is refused because it belongs to another database.
func refuses(t *testing.T, c sqlstore.Config) {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), c)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "does not continue the database") {
		t.Errorf("a log that does not continue its database: %v", err)
	}
}

// Entries that neither the log nor the database took leave no frames that a later entry could
// take for its successors.
func TestEntryLogFailedFrames(t *testing.T) {
	t.Parallel()
	url, s := logged(t)
	var fail atomic.Bool
	if err := s.FailingLog(&fail, true); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	release := locked(t, url)
	two := use("lse_a")
	two.Entries = append(two.Entries, use("lse_b").Entries...)
	if err := s.Append(t.Context(), two); err == nil {
		t.Fatal("entries were acknowledged while neither the log nor the database could be written")
	}
	release()
	appendAll(t, s, started())
	if got := uses(t, opened(t, owned(crashed(t, url)))); len(got) > 0 {
		t.Errorf("after a crash refused entries are on the audit log: %q", got)
	}
}

// A log whose entry has the place of another entry in the database is refused. SQLite may restore
// the other entry after a crash, from a commit whose outcome was unknown.
func TestEntryLogCovered(t *testing.T) {
	t.Parallel()
	url, s := logged(t, "lse_acked")
	copied := crashed(t, url)
	away := logOf(copied) + ".away"
	if err := os.Rename(logOf(copied), away); err != nil {
		t.Fatal(err)
	}
	other := opened(t, sqlstore.Config{URL: copied})
	if err := other.Continue(t.Context(), s.Writer()); err != nil {
		t.Fatal(err)
	}
	appendAll(t, other, started())
	if err := errors.Join(other.Close(), os.Rename(away, logOf(copied))); err != nil {
		t.Fatal(err)
	}
	refuses(t, owned(copied))
	refuses(t, sqlstore.Config{URL: copied})
}

// After a commit with an unknown outcome, which a crash may bring back, nothing is acknowledged in
// the log before other entries are committed.
func TestEntryLogAfterUnknown(t *testing.T) {
	t.Parallel()
	missing := started()
	missing.MoveTask = &broker.TaskMove{ID: "tsk_none", State: broker.TaskClosed, At: time.Now(), Cause: broker.CauseCompleted}
	for name, c := range map[string]struct {
		next   broker.Record
		locked bool
	}{
		"a refused unit":  {next: missing},
		"a failed commit": {next: started(), locked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, s := logged(t)
			if err := s.LoseOutcome(); err == nil {
				t.Fatal("the outcome was not lost")
			}
			release := func() {}
			if c.locked {
				release = locked(t, url)
			}
			if err := s.Append(t.Context(), c.next); err == nil {
				t.Fatal("no error")
			}
			release()
			appendAll(t, s, use("lse_x"))
			if n := s.WithoutRow(); n != 0 {
				t.Errorf("%d entries are in the log alone, want 0", n)
			}
			appendAll(t, s, use("lse_y"))
			if n := s.WithoutRow(); n != 1 {
				t.Errorf("the log is not used again: %d entries are in it alone, want 1", n)
			}
		})
	}
}

// Reads that need no egress entry do not depend on writes, and no read outlasts its context.
func TestEntryLogReads(t *testing.T) {
	t.Parallel()
	url, s := logged(t, "lse_x")
	defer locked(t, url)()
	for _, err := range s.Entries(t.Context(), broker.EntryFilter{Kind: audit.TaskClosed, TaskID: "tsk_1", Limit: 1}) {
		if err != nil {
			t.Errorf("entries of another kind: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, err := range s.Entries(ctx, broker.EntryFilter{Kind: audit.EgressAllowed}) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("egress entries: %v, want the end of the context", err)
		}
	}
}

// A failed start releases the lock of the log.
func TestEntryLogFailedStart(t *testing.T) {
	t.Parallel()
	url, _ := logged(t, "lse_x")
	copied := crashed(t, url)
	inDatabase(t, copied, "CREATE TRIGGER full BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(ABORT, 'full'); END")()
	if s, err := sqlstore.Open(t.Context(), owned(copied)); err == nil {
		_ = s.Close()
		t.Fatal("a store started without the rows that its log has")
	}
	inDatabase(t, copied, "DROP TRIGGER full")()
	if got := uses(t, opened(t, owned(copied))); !slices.Equal(got, []string{"lse_x"}) {
		t.Errorf("after the second start: %q", got)
	}
}

// A store that stops under load loses no acknowledged entry, and every waiting caller returns.
func TestEntryLogStop(t *testing.T) {
	t.Parallel()
	for range 8 {
		url := sqlstoretest.SQLite(t)
		s := opened(t, owned(url).RowsAfter(time.Millisecond))
		appendAll(t, s, started())
		var all sync.WaitGroup
		var mu sync.Mutex
		acked, enough := map[string]bool{}, make(chan struct{})
		for w := range 6 {
			all.Go(func() {
				for i := 0; ; i++ {
					r := use(fmt.Sprintf("lse_%d_%d", w, i))
					r.Late = w == 0
					if s.Append(context.Background(), r) != nil {
						return
					}
					mu.Lock()
					if acked[r.Entries[0].LeaseID] = true; len(acked) == 100 {
						close(enough)
					}
					mu.Unlock()
					if w == 3 && i%5 == 0 {
						for range s.Entries(context.Background(), broker.EntryFilter{LeaseID: r.Entries[0].LeaseID}) {
						}
					}
					if w == 4 && i%7 == 0 {
						_ = s.LoseOutcome()
					}
				}
			})
		}
		<-enough
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		got := map[string]int{}
		for _, id := range uses(t, opened(t, owned(url))) {
			got[id]++
		}
		for id := range acked {
			if got[id] != 1 {
				t.Fatalf("%s is %d times on the audit log", id, got[id])
			}
		}
	}
}

// An entry that a chain accepts is read back from its frame as it was.
func TestEntryLogRoundTrip(t *testing.T) {
	t.Parallel()
	texts := []string{
		"a", "\u2028", "<&>", "\ufffd", "é", "e\u0301", "\U0001f600", "\x7f", "\u0080", "\ufeff", "\ud7ff", "\"\\/", "\xff", "\xed\xa0\x80", "\u202e", "\ufffe", "\U0010ffff",
	}
	data := []string{
		"", "{}", `{"a":1e21}`, `{"a":1.0}`, `{"a":-0}`, `{"a":9007199254740993}`, `{"\u2028":"\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"z":1,"a":{"q":[null,true,1e-7]}}`,
		"{\"a\":\"\xff\"}", `{"a":"` + strings.Repeat("x", 60000) + `"}`, `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, `{"a":1,"a":2}`,
		`{"a":"\u0000"}`, `{"\u0000":1}`, `{"a":1E400}`,
	}
	times := []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999999999), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Now().In(time.FixedZone("x", 5400)),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	check := func(text, d string, at time.Time) (accepted bool) {
		chain, err := audit.NewChain("w")
		if err != nil {
			t.Fatal(err)
		}
		e := audit.Entry{At: at, Kind: audit.EgressAllowed, Actor: text, TaskID: text, LeaseID: text, RequestID: text}
		if d != "" {
			e.Data = json.RawMessage(d)
		}
		if chain.Link(&e) != nil {
			return false
		}
		b, err := sqlstore.AppendFrame(nil, 1, &e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sqlstore.ReadFrames(append(b, 0))
		if err != nil || len(got) != 1 || audit.Sum(got[0]) != e.Hash || !got[0].At.Equal(e.At) || string(got[0].Data) != string(e.Data) {
			t.Errorf("text %q, data %.40q at %v: %d entries, %v", text, d, at, len(got), err)
		}
		return true
	}
	if !check(texts[0], data[1], times[1]) {
		t.Error("the chain accepts no plain entry")
	}
	for _, text := range texts {
		for _, d := range data {
			for _, at := range times {
				check(text, d, at)
			}
		}
	}
}

// After a crash a store that does not own the database has the entries of the log, too.
func TestEntryLogOfAnOwner(t *testing.T) {
	t.Parallel()
	url, _ := logged(t, "lse_acked")
	if got := uses(t, opened(t, sqlstore.Config{URL: crashed(t, url)})); !slices.Equal(got, []string{"lse_acked"}) {
		t.Errorf("got %q", got)
	}
}

// Writable succeeds again once the late rows are inserted.
func TestEntryLogWritable(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := opened(t, owned(url).RowsAfter(20*time.Millisecond))
	appendAll(t, s, started())
	release := locked(t, url)
	appendAll(t, s, use("lse_1"))
	for s.Writable(t.Context()) == nil {
		time.Sleep(5 * time.Millisecond)
	}
	release()
	for s.WithoutRow() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	appendAll(t, s, use("lse_2")) // after the outcome of the rows was stored
	if err := s.Writable(t.Context()); err != nil {
		t.Errorf("rows are inserted again, and Writable returns: %v", err)
	}
}
