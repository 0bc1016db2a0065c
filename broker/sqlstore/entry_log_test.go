package sqlstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/storetest"
)

func owned(url string) sqlstore.Config {
	return sqlstore.Config{URL: url, MaxConns: 4, Exclusive: true}
}

// use returns a record of one request through egress, which is found by its lease.
func use(leaseID string) broker.Record {
	e := storetest.Entry(audit.EgressAllowed, "tsk_1")
	e.LeaseID = leaseID
	return broker.Record{Entries: []audit.Entry{e}}
}

func started() broker.Record {
	return broker.Record{Entries: []audit.Entry{storetest.Entry(audit.BrokerStarted, "")}}
}

// uses returns the leases of all requests on the audit log, whose chains must verify.
func uses(t *testing.T, s *sqlstore.Store) []string {
	t.Helper()
	var out []string
	for e, err := range s.Entries(context.WithoutCancel(t.Context()), broker.EntryFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == audit.EgressAllowed {
			out = append(out, e.LeaseID)
		}
	}
	proven(t, s)
	return out
}

func appendAll(t *testing.T, s *sqlstore.Store, all ...broker.Record) {
	t.Helper()
	for _, r := range all {
		if err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// crashed copies the files of a database as a crash would leave them, and returns the URL of
// the copy.
func crashed(t *testing.T, url string) string {
	t.Helper()
	from, to := strings.TrimPrefix(url, "sqlite://"), filepath.Join(t.TempDir(), "ebb.db")
	for _, suffix := range []string{"", "-wal", sqlstore.LogSuffix} {
		b, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return "sqlite://" + to
}

func logOf(url string) string { return strings.TrimPrefix(url, "sqlite://") + sqlstore.LogSuffix }

// A store with a log of egress entries behaves like one without it. Two runs cannot share a log,
// so the second run of this test opens the database without owning it.
func TestEntryLogStore(t *testing.T) {
	t.Parallel()
	storetest.RunStore(t, func(t *testing.T) func() storetest.Stores {
		url, running := sqlstoretest.SQLite(t), 0
		return func() storetest.Stores {
			c := owned(url)
			if running++; running > 1 {
				c.Exclusive = false
				away := logOf(url) + ".away"
				if err := os.Rename(logOf(url), away); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := os.Rename(away, logOf(url)); err != nil {
						t.Error(err)
					}
				}()
			}
			s := opened(t, c)
			return storetest.Stores{Store: s, ApprovalStore: s, Policies: s, Sessions: s, Close: func() error {
				running--
				return s.Close()
			}}
		}
	})
}

// After a crash at any byte of a write, every entry before the torn frame is on the audit log,
// and nothing else.
//
//ebb:invariant I1 An acknowledged request through egress is on the audit log after a crash at any byte of a later write
func TestEntryLogTorn(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := opened(t, owned(url).LateRows())
	appendAll(t, s, started())
	var ends []int // of the frames
	want := []string{"lse_1", "lse_2", "lse_3", "lse_4"}
	for _, id := range want {
		appendAll(t, s, use(id))
	}
	if s.WithoutRow() != len(want) {
		t.Fatalf("%d entries wait for a row, want %d", s.WithoutRow(), len(want))
	}
	after := crashed(t, url)
	whole, err := os.ReadFile(logOf(after))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; binary.LittleEndian.Uint32(whole[at:]) > 0; {
		at += 16 + int(binary.LittleEndian.Uint32(whole[at:]))
		ends = append(ends, at)
	}
	if len(ends) != len(want) {
		t.Fatalf("the log has %d frames, want %d", len(ends), len(want))
	}
	end := ends[len(ends)-1]
	for cut := range end + 1 {
		complete, _ := slices.BinarySearch(ends, cut+1)
		for name, torn := range map[string][]byte{
			"cut": whole[:cut], "zeros": append(slices.Clone(whole[:cut]), make([]byte, end-cut)...),
			"noise": append(slices.Clone(whole[:cut]), bytes.Repeat([]byte{0xa5}, end-cut)...),
		} {
			got, err := sqlstore.ReadFrames(torn)
			if err != nil || len(got) != complete {
				t.Fatalf("%s at byte %d: %d entries, %v; want %d", name, cut, len(got), err, complete)
			}
		}
	}
	for at := range end {
		flipped := slices.Clone(whole[:end])
		flipped[at] ^= 1 << rand.IntN(8)
		got, err := sqlstore.ReadFrames(flipped)
		before, _ := slices.BinarySearch(ends, at+1)
		if err != nil || len(got) != before {
			t.Fatalf("byte %d altered: %d entries, %v; want %d", at, len(got), err, before)
		}
	}
	for n, at := range append([]int{0}, ends...) {
		for _, cut := range []int{at, min(at+1, end), max(at-1, 0)} {
			copied := crashed(t, after)
			if err := os.WriteFile(logOf(copied), whole[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			complete, _ := slices.BinarySearch(ends, cut+1)
			if got := uses(t, opened(t, owned(copied))); !slices.Equal(got, want[:complete]) {
				t.Errorf("frame %d, cut at byte %d: %q", n, cut, got)
			}
		}
	}
}

// The file is written from its start again after each commit, and frames that remain from
// before are not read.
func TestEntryLogRounds(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := opened(t, owned(url).LateRows())
	var want []string
	for round := range 5 {
		appendAll(t, s, started())
		for i := range 5 - round {
			want = append(want, fmt.Sprintf("lse_%d%d", round, i))
			appendAll(t, s, use(want[len(want)-1]))
		}
	}
	if s.WithoutRow() != 1 {
		t.Fatalf("%d entries wait, want 1", s.WithoutRow())
	}
	again := crashed(t, url)
	if got := uses(t, opened(t, owned(again))); !slices.Equal(got, want) {
		t.Errorf("after a crash: %q, want %q", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := uses(t, opened(t, sqlstore.Config{URL: url})); !slices.Equal(got, want) {
		t.Errorf("after Close: %q, want %q", got, want)
	}
	if b, err := os.ReadFile(logOf(url)); err != nil || binary.LittleEndian.Uint32(b) != 0 {
		t.Errorf("after Close the log is not empty, %v", err)
	}
}

// A log that does not continue its database is refused, and nothing is changed.
func TestEntryLogElsewhere(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := opened(t, owned(url).LateRows())
	appendAll(t, s, started())
	old := crashed(t, url)
	appendAll(t, s, use("lse_1"), started(), use("lse_2"))
	newer := crashed(t, url)
	for name, b := range map[string]string{"an older database": old, "another database": sqlstoretest.SQLite(t)} {
		log, err := os.ReadFile(logOf(newer))
		if err == nil {
			err = os.WriteFile(logOf(b), log, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sqlstore.Open(t.Context(), owned(b)); err == nil || !strings.Contains(err.Error(), "does not continue the database") || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(logOf(b)); err != nil || !bytes.Equal(now, log) {
			t.Errorf("%s: the log was changed, %v", name, err)
		}
	}
	if _, err := sqlstore.Open(t.Context(), owned(url)); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("a second store on the same database: %v", err)
	}
}

// While the log cannot be written, entries are durable in the database. While neither can be,
// nothing is acknowledged.
//
//ebb:invariant I11 A request through egress is refused while neither the log of its entries nor the database can be written
func TestEntryLogFails(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := opened(t, owned(url).LateRows())
	appendAll(t, s, started())
	var fail atomic.Bool
	if err := s.FailingLog(&fail, false); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 12 {
		fail.Store(i%4 == 2)
		want = append(want, fmt.Sprintf("lse_%d", i))
		appendAll(t, s, use(want[i]))
		if i%5 == 4 {
			if err := s.LoseOutcome(); err == nil {
				t.Fatal("the outcome was not lost")
			}
		}
		if got := uses(t, opened(t, owned(crashed(t, url)))); !slices.Equal(got, want) {
			t.Fatalf("after a crash at entry %d: %q, want %q", i, got, want)
		}
	}

	url = sqlstoretest.SQLite(t)
	full, err := sqlstore.OpenLimited(t.Context(), owned(url).LateRows(), 1)
	if err == nil {
		t.Cleanup(func() { _ = full.Close() })
		err = full.FailingLog(&fail, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	want = nil
	const all = 400
	for i := range all {
		if id := fmt.Sprintf("lse_%d", i); full.Append(t.Context(), use(id)) == nil {
			want = append(want, id)
		}
	}
	if len(want) == all {
		t.Error("a full disk refused no entry")
	}
	if got := uses(t, full); !slices.Equal(got, want) {
		t.Errorf("%d entries were acknowledged, and %d are on the audit log", len(want), len(got))
	}
}

// Entries of many requests and other changes at the same time make one chain, and none is
// lost in a crash, also when the outcomes of commits are unknown.
func TestEntryLogTogether(t *testing.T) {
	t.Parallel()
	url := sqlstoretest.SQLite(t)
	s := mustOpenOne(t, opened(t, owned(url)))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				// An entry whose outcome is unknown is repeated.
				if err := persist(t.Context(), s, use(fmt.Sprintf("lse_%d_%d", w, i))); err != nil {
					t.Error(err)
				}
				if w == 0 && i%7 == 0 {
					if err := persist(t.Context(), s, mint("tsk_1")); err != nil {
						t.Error(err)
					}
				}
				if w == 1 && i%9 == 0 {
					_ = s.LoseOutcome()
				}
			}
		})
	}
	wg.Wait()
	for _, at := range []*sqlstore.Store{opened(t, owned(crashed(t, url))), s} {
		got := uses(t, at)
		slices.Sort(got)
		if len(slices.Compact(got)) != 480 {
			t.Errorf("%d requests on the audit log, want 480", len(got))
		}
	}
}

// loggingChild is childURL for a writer of egress entries.
const loggingChild = "EBB_TEST_CHILD_LOG"

// logging appends egress entries until it is killed, and prints each that is acknowledged.
func logging(u string) int {
	s, err := sqlstore.Open(context.Background(), owned(u))
	if err == nil {
		err = s.Append(context.Background(), started())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("lse_%d_%d_%d", os.Getpid(), w, i)
				if err := s.Append(context.Background(), use(id)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println(id)
				mu.Unlock()
			}
		}()
	}
	select {}
}

// After kill -9 every acknowledged request is on the audit log, and every chain verifies.
//
//ebb:invariant I11 After kill -9 every request through egress that was acknowledged is on the audit log
func TestEntryLogKillNine(t *testing.T) {
	t.Parallel()
	u := sqlstoretest.SQLite(t)
	var acked []string
	for run := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), loggingChild+"="+u)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		kill := 50 + rand.IntN(1000)
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acked = append(acked, lines.Text())
			if n == kill {
				_ = cmd.Process.Kill() // then read the output from before the kill
			}
		}
		_ = cmd.Wait()
		s := opened(t, owned(u))
		got := map[string]int{}
		for _, id := range uses(t, s) {
			got[id]++
		}
		for _, id := range acked {
			if got[id] != 1 {
				t.Fatalf("run %d: acknowledged entry %s is %d times on the audit log", run, id, got[id])
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// For any bytes in the file, readFrames returns only whole entries in canonical form.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, 64))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	s, err := sqlstore.Open(f.Context(), owned(sqlstoretest.SQLite(f)).LateRows())
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []broker.Record{started(), use("lse_1"), use("lse_2")} {
		if err := s.Append(f.Context(), r); err != nil {
			f.Fatal(err)
		}
	}
	_ = s.Close()
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := sqlstore.ReadFrames(b)
		if err != nil {
			return
		}
		size := 0
		for i := range got {
			text, err := got[i].AppendJSON(nil)
			if err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
			size += 16 + len(text)
		}
		if size > len(b) {
			t.Errorf("%d entries of %d bytes were read from %d bytes", len(got), size, len(b))
		}
	})
}
