package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/migrations"
)

func eg(id string) audit.Entry {
	return audit.Entry{At: time.Now(), Kind: audit.EgressAllowed, Actor: "sbx_1", TaskID: "tsk_1", LeaseID: id}
}

func st() broker.Record {
	return broker.Record{Entries: []audit.Entry{{At: time.Now(), Kind: audit.BrokerStarted, Actor: "ebb"}}}
}

func aopen(t *testing.T, path string, flush time.Duration) (*Store, error) {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: "sqlite://" + path, Exclusive: true, MaxConns: 4, flushTime: flush, batchTime: 1500 * time.Millisecond})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func image(t *testing.T, from string, suffixes ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "ebb.db")
	if len(suffixes) == 0 {
		suffixes = []string{"", "-wal", logSuffix}
	}
	for _, x := range suffixes {
		b, err := os.ReadFile(from + x)
		must(t, err)
		must(t, os.WriteFile(to+x, b, 0o600))
	}
	return to
}

// afterWrite writes everything and then reports EIO, as a failed flush of O_DSYNC does.
type afterWrite struct{ logFile }

func (f afterWrite) WriteAt(b []byte, at int64) (int, error) {
	_, _ = f.logFile.WriteAt(b, at)
	return 0, syscall.EIO
}

func lockDB(t *testing.T, path string) func() {
	db, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	must(t, err)
	var once sync.Once
	f := func() { once.Do(func() { _, _ = db.Exec("ROLLBACK"); _ = db.Close() }) }
	t.Cleanup(f)
	return f
}

// A refused batch of 2 entries (failed log write, then failed commit) leaves no
// frames that a later entry could take for its successors.
func TestEntryLogFailedFrames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	must(t, s.com.do(t.Context(), &unit{work: func(context.Context, *session, *unit) error {
		s.com.entryLog.file = afterWrite{s.com.entryLog.file}
		return nil
	}}))
	release := lockDB(t, path)
	err = s.Append(t.Context(), broker.Record{Late: true, Entries: []audit.Entry{eg("lse_a"), eg("lse_b")}})
	if err == nil {
		t.Fatal("want a refusal")
	}
	t.Log("refused:", err)
	release()
	must(t, s.Append(t.Context(), st()))
	if _, err = aopen(t, image(t, path), time.Hour); err != nil {
		t.Errorf("start after a crash: %v", err)
	}
}

// A log whose entry has the place of another entry in the database is refused.
func TestEntryLogCovered(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_acked")}}))
	to := image(t, path)
	// What SQLite recovers after a crash from a commit whose outcome was unknown (failed fsync of the WAL).
	db, err := sql.Open("sqlite", "file:"+to)
	must(t, err)
	last, err := collect(t.Context(), pool{&engine{dialect: migrations.SQLite}, db}, "SELECT "+entryColumns+" FROM audit_entries ORDER BY seq DESC LIMIT 1", nil, scanEntry)
	must(t, err)
	chain, err := audit.ResumeChain(last[0])
	must(t, err)
	e := st().Entries[0]
	must(t, chain.Link(&e))
	_, err = db.Exec(insertEntry+" ("+marks(entryWidth)+")", appendEntry(nil, &e)...)
	must(t, err)
	must(t, db.Close())
	s2, err := aopen(t, to, time.Hour)
	if err != nil {
		t.Log("refused, good:", err)
		return
	}
	for e, err := range s2.Entries(t.Context(), broker.EntryFilter{}) {
		must(t, err)
		if e.LeaseID == "lse_acked" {
			return
		}
	}
	t.Error("started, and the acknowledged entry lse_acked is gone")
}

// After a commit with an unknown outcome, which a crash may bring back, nothing is acknowledged in
// the log before other entries are committed.
func TestEntryLogAfterUnknown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	for name, next := range map[string]func() error{
		"a refused unit": func() error {
			return s.Append(t.Context(), broker.Record{MoveTask: &broker.TaskMove{ID: "tsk_none", State: broker.TaskClosed, At: time.Now(), Cause: broker.CauseCompleted}, Entries: st().Entries})
		},
		"a failed commit": func() error {
			defer lockDB(t, path)()
			return s.Append(t.Context(), st())
		},
	} {
		if err := s.LoseOutcome(); err == nil {
			t.Fatal("the outcome was not lost")
		}
		if err := next(); err == nil {
			t.Fatalf("%s: no error", name)
		}
		must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_x")}}))
		if n := s.WithoutRow(); n != 0 {
			t.Errorf("%s: %d entries are in the log alone", name, n)
		}
		must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_y")}}))
		if n := s.WithoutRow(); n != 1 {
			t.Errorf("%s: the log is not used again: %d entries are in it alone", name, n)
		}
	}
}

// Reads that need no egress entry do not depend on writes, and no read outlasts its context.
func TestEntryLogReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_x")}}))
	release := lockDB(t, path)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, err := range s.Entries(ctx, broker.EntryFilter{Kind: audit.TaskClosed, TaskID: "tsk_1", Limit: 1}) {
		if err != nil {
			t.Errorf("entries of another kind: %v", err)
		}
	}
	for _, err := range s.Entries(ctx, broker.EntryFilter{Kind: audit.EgressAllowed}) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("egress entries: %v, want the end of the context", err)
		}
	}
}

// A failed start gives up the lock of the file.
func TestEntryLogFailedStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_x")}}))
	to := image(t, path)
	cfg, err := Config{URL: "sqlite://" + to, Exclusive: true, batchTime: 300 * time.Millisecond}.withDefaults()
	must(t, err)
	eng, err := openEngine(t.Context(), cfg, true)
	must(t, err)
	x := &Store{cfg: cfg, engine: eng}
	// The registration succeeds, then the disk is full: a trigger stands for it.
	db, err := sql.Open("sqlite", "file:"+to)
	must(t, err)
	_, err = db.Exec("CREATE TRIGGER full BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(ABORT, 'full'); END")
	must(t, err)
	if err = x.start(t.Context()); err == nil {
		t.Fatal("want failure")
	}
	_ = eng.close()
	_, err = db.Exec("DROP TRIGGER full")
	must(t, err)
	_ = db.Close()
	if _, err := aopen(t, to, time.Hour); err != nil {
		t.Error(err)
	}
}

// A store that stops under load loses no acknowledged entry and blocks nobody.
func TestEntryLogStop(t *testing.T) {
	t.Parallel()
	for range 8 {
		path := filepath.Join(t.TempDir(), "ebb.db")
		s, err := aopen(t, path, time.Millisecond)
		must(t, err)
		must(t, s.Append(t.Context(), st()))
		var wg sync.WaitGroup
		var mu sync.Mutex
		acked := map[string]bool{}
		for w := range 6 {
			wg.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("lse_%d_%d", w, i)
					if s.Append(context.Background(), broker.Record{Entries: []audit.Entry{eg(id)}, Late: w == 0}) != nil {
						return
					}
					mu.Lock()
					acked[id] = true
					mu.Unlock()
					if w == 3 && i%5 == 0 {
						for _, err := range s.Entries(context.Background(), broker.EntryFilter{LeaseID: id}) {
							if err != nil {
								break
							}
						}
					}
					if w == 4 && i%7 == 0 {
						_ = s.LoseOutcome()
					}
				}
			})
		}
		for enough := false; !enough; time.Sleep(time.Millisecond) {
			mu.Lock()
			enough = len(acked) > 100
			mu.Unlock()
		}
		must(t, s.Close())
		wg.Wait()
		s2, err := aopen(t, path, time.Millisecond)
		must(t, err)
		got := map[string]int{}
		for e, err := range s2.Entries(t.Context(), broker.EntryFilter{Kind: audit.EgressAllowed}) {
			must(t, err)
			got[e.LeaseID]++
		}
		for id := range acked {
			if got[id] != 1 {
				t.Fatalf("%s: %d times", id, got[id])
			}
		}
	}
}

// What Draft and Link accept, a restart reads back.
func TestEntryLogRoundTrip(t *testing.T) {
	t.Parallel()
	nasty := []string{"a", "\u2028", "<&>", "\ufffd", "é", "e\u0301", "\U0001f600", "\x7f", "\u0080", "\ufeff", "\ud7ff", "\"\\/", "\xff", "\xed\xa0\x80", "\u202e", "\ufffe", "\U0010ffff"}
	datas := []string{"{}", `{"a":1e21}`, `{"a":1.0}`, `{"a":-0}`, `{"a":9007199254740993}`, `{"\u2028":"\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"z":1,"a":{"q":[null,true,1e-7]}}`, "{\"a\":\"\xff\"}", `{"a":"` + strings.Repeat("x", 60000) + `"}`, `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, `{"a":1,"a":2}`, `{"a":"\u0000"}`, `{"\u0000":1}`, `{"a":1E400}`}
	times := []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 999999999), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Now().In(time.FixedZone("x", 5400)), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}
	n := 0
	for _, a := range nasty {
		for _, d := range append(datas, "") {
			for _, at := range times {
				c, _ := audit.NewChain("w")
				e := audit.Entry{At: at, Kind: audit.EgressAllowed, Actor: a, TaskID: a, LeaseID: a, RequestID: a}
				if d != "" {
					e.Data = json.RawMessage(d)
				}
				if c.Link(&e) != nil {
					continue
				}
				b, err := appendFrame(nil, 1, &e)
				must(t, err)
				got, err := readFrames(append(b, 0))
				if err != nil || len(got) != 1 || audit.Sum(got[0]) != e.Hash || !got[0].At.Equal(e.At) || string(got[0].Data) != string(e.Data) {
					t.Errorf("actor %q data %.40q at %v: %v %d", a, d, at, err, len(got))
				}
				n++
			}
		}
	}
	t.Log(n, "accepted")
}

// After a crash a store that does not own the database has the entries of the log, too.
func TestEntryLogOfAnOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, time.Hour)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_acked")}}))
	to := image(t, path)
	s2, err := Open(t.Context(), Config{URL: "sqlite://" + to})
	if err != nil {
		t.Log("refused, good:", err)
		return
	}
	t.Cleanup(func() { _ = s2.Close() })
	for e, err := range s2.Entries(t.Context(), broker.EntryFilter{LeaseID: "lse_acked"}) {
		must(t, err)
		_ = e
		return
	}
	t.Error("started without the acknowledged entry, and said nothing")
}

// Writable succeeds again when the rows were inserted.
func TestEntryLogWritable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := aopen(t, path, 20*time.Millisecond)
	must(t, err)
	must(t, s.Append(t.Context(), st()))
	release := lockDB(t, path)
	must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg("lse_1")}}))
	for {
		if err, known := s.com.outcomes.recent(); known && err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	release()
	for s.WithoutRow() > 0 {
		time.Sleep(20 * time.Millisecond)
	}
	for i := range 20 {
		must(t, s.Append(t.Context(), broker.Record{Entries: []audit.Entry{eg(fmt.Sprint("lse_x", i))}}))
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.Writable(t.Context()); err != nil {
		t.Errorf("every write succeeds again, and Writable says: %v", err)
	}
}
