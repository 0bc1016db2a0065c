package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// faults fail the next writes of a log and the next commits of its database.
type faults struct {
	logFile
	rand    *rand.Rand
	writes  []string // outcomes of the next writes to the log
	commits []string // outcomes of the next commits
	ghost   []statement
	torn    bool // a removal of frames has failed, so that a crash may leave refused ones
}

func next(of *[]string) (s string) {
	if len(*of) > 0 {
		s, *of = (*of)[0], (*of)[1:]
	}
	return s
}

// WriteAt implements io.WriterAt.
func (f *faults) WriteAt(b []byte, at int64) (int, error) {
	n := 0
	switch next(&f.writes) {
	case "":
		return f.logFile.WriteAt(b, at)
	case "all":
		n = len(b)
	case "part":
		n = f.rand.IntN(len(b))
	}
	f.torn = f.torn || len(b) == frameHead
	_, _ = f.logFile.WriteAt(b[:n], at)
	return n, syscall.EIO
}

// commit runs the statements of a transaction as session.finish does.
func (f *faults) commit(ctx context.Context, conn *sql.Conn, begin bool, sts []statement) error {
	say := func(text string, args ...any) error {
		_, err := conn.ExecContext(ctx, text, args...)
		return err
	}
	if begin {
		if err := say("BEGIN IMMEDIATE"); err != nil {
			return err
		}
	}
	for _, st := range sts {
		if err := say(st.text, st.args...); err != nil {
			return err
		}
	}
	switch next(&f.commits) {
	case "refused":
		return syscall.EIO
	case "unknown, committed":
		f.ghost = nil
		return errors.Join(ErrUnknown, say("COMMIT"))
	case "unknown":
		// A crash may bring these statements back, until another commit has written over them.
		f.ghost = nil
		for _, st := range sts {
			f.ghost = append(f.ghost, statement{st.text, slices.Clone(st.args)})
		}
		return errors.Join(ErrUnknown, say("ROLLBACK"))
	}
	if len(sts) > 0 {
		f.ghost = nil
	}
	return say("COMMIT")
}

// afterCrash returns the leases of the egress entries that a start finds in a copy of the files.
func afterCrash(t *testing.T, path string, ghost []statement) ([]string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "ebb.db")
	for _, suffix := range []string{"", "-wal", logSuffix} {
		b, err := os.ReadFile(path + suffix)
		if suffix == "-wal" && errors.Is(err, fs.ErrNotExist) {
			continue // SQLite removes it with the last connection
		}
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(ghost) > 0 {
		db, err := sql.Open("sqlite", "file:"+to)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range ghost {
			if _, err := db.ExecContext(t.Context(), st.text, st.args...); err != nil {
				t.Fatal(err)
			}
		}
		_ = db.Close()
	}
	s, err := Open(t.Context(), Config{URL: "sqlite://" + to, Exclusive: true, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return leasesIn(t, s), nil
}

func leasesIn(t *testing.T, s *Store) (out []string) {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for e, err := range s.Entries(t.Context(), broker.EntryFilter{}) {
		if err == nil {
			err = enc.Encode(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.LeaseID != "" {
			out = append(out, e.LeaseID)
		}
	}
	if r, err := audit.Verify(&text, jose.KeySet{}); err != nil || r.Partial {
		t.Fatalf("the audit log does not verify: %+v, %v", r, err)
	}
	return out
}

// openOwned opens a store with a log, whose rows are inserted with the next commit.
func openOwned(t *testing.T) (s *Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ebb.db")
	s, err := Open(t.Context(), Config{URL: "sqlite://" + path, Exclusive: true, MaxConns: 2, flushTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, path
}

// Writes of the log and commits of the database fail in any order, and a crash follows at any step:
// every acknowledged entry is on the audit log once, and no refused one is.
func TestEntryLogRandomFaults(t *testing.T) {
	t.Parallel()
	const seeds, steps = 4, 60
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, path := openOwned(t)
			f := &faults{rand: rand.New(rand.NewPCG(uint64(seed), 1))}
			start := broker.Record{Entries: []audit.Entry{{At: time.Now(), Kind: audit.BrokerStarted, Actor: "ebb"}}}
			err := s.com.do(t.Context(), &unit{work: func(context.Context, *session, *unit) error {
				f.logFile, s.com.entryLog.file, s.engine.pipeline = s.com.entryLog.file, f, f.commit
				return nil
			}})
			if err == nil {
				err = s.Append(t.Context(), start)
			}
			if err != nil {
				t.Fatal(err)
			}
			acked, refused := map[string]bool{}, map[string]bool{}
			check := func(step string, got []string) {
				t.Helper()
				seen := map[string]int{}
				for _, id := range got {
					if seen[id]++; seen[id] > 1 || refused[id] && !f.torn {
						t.Fatalf("%s: %s is on the audit log %d times; refused: %v", step, id, seen[id], refused[id])
					}
				}
				for id := range acked {
					if seen[id] == 0 {
						t.Fatalf("%s: the acknowledged entry %s is missing", step, id)
					}
				}
			}
			faulty := seed%3 == 0 // removals of frames fail, too
			var trace []string
			for i := range steps {
				one := func(choices ...string) []string { return []string{choices[f.rand.IntN(len(choices))]} }
				f.writes, f.commits = nil, nil
				if f.rand.IntN(3) == 0 {
					f.writes = one("none", "part", "all")
					if faulty && f.rand.IntN(2) == 0 {
						f.writes = append(f.writes, one("none", "part")...)
					}
				}
				if f.rand.IntN(3) == 0 {
					f.commits = one("refused", "unknown", "unknown, committed")
				}
				var r broker.Record
				ids := []string{fmt.Sprintf("lse_%d", i)}
				switch f.rand.IntN(6) {
				case 0:
					r, ids = start, nil
				case 1: // an entry of another kind in the same unit
					r = start
				case 2:
					ids = append(ids, ids[0]+"b", ids[0]+"c")
				}
				r.Entries = slices.Clone(r.Entries)
				for _, id := range ids {
					r.Entries = append(r.Entries, audit.Entry{At: time.Now(), Kind: audit.EgressAllowed, Actor: "sbx_1", TaskID: "tsk_1", LeaseID: id})
				}
				trace = append(trace, fmt.Sprintf("%d writes %q commits %q entries %d", i, f.writes, f.commits, len(r.Entries)))
				err := s.Append(t.Context(), r)
				for _, id := range ids {
					switch {
					case err == nil:
						acked[id] = true
					case !errors.Is(err, ErrUnknown):
						refused[id] = true
					}
				}
				trace[len(trace)-1] += fmt.Sprintf(": %v", err)
				for _, ghost := range [][]statement{nil, f.ghost} {
					got, err := afterCrash(t, path, ghost)
					if err != nil && f.torn && strings.Contains(err.Error(), "does not continue the database") {
						continue
					}
					if err != nil {
						t.Fatalf("%v\n%s", err, strings.Join(trace, "\n"))
					}
					check(fmt.Sprintf("%s\nghost %v", strings.Join(trace[max(0, len(trace)-12):], "\n"), ghost != nil), got)
				}
				if f.rand.IntN(5) == 0 {
					f.writes, f.commits = nil, nil
					check("now", leasesIn(t, s))
				}
				f.torn = s.com.entryLog.torn // the committer is idle
			}
		})
	}
}

// The file of the log is private, and a write to it is durable when it returns, also after a power
// failure. The entries that wait for rows are bounded.
func TestEntryLogFile(t *testing.T) {
	t.Parallel()
	s, _ := openOwned(t)
	f := s.com.entryLog.file.(*os.File)
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_DSYNC == 0 {
		t.Errorf("the flags of the log are %#x, without O_DSYNC (%v)", flags, errno)
	}
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode of the log is %v, %v", info.Mode(), err)
	}
	e := audit.Entry{At: time.Now(), Kind: audit.EgressAllowed, Actor: "sbx_1", LeaseID: "lse_1"}
	for i := range 2*maxWaiting + 2 {
		r := broker.Record{Entries: []audit.Entry{e}}
		if i == 0 {
			r.Entries[0].Kind = audit.BrokerStarted
		}
		if err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n := s.WithoutRow(); n > maxWaiting {
			t.Fatalf("%d entries wait for rows, want at most %d", n, maxWaiting)
		}
	}
}

// A log with the first entry of a chain belongs to another database: a run begins its chain in the
// database.
func TestEntryLogOfAnotherChain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	chain, err := audit.NewChain("ebb-other")
	e := audit.Entry{At: time.Now(), Kind: audit.EgressAllowed, Actor: "sbx_1", LeaseID: "lse_1"}
	var b []byte
	if err == nil {
		err = chain.Link(&e)
	}
	if err == nil {
		b, err = appendFrame(nil, 1, &e)
	}
	if err == nil {
		err = os.WriteFile(path+logSuffix, append(b, 0), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{URL: "sqlite://" + path, Exclusive: true})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "does not continue the database") {
		t.Errorf("a log of another database: %v", err)
	}
}
