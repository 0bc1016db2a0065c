package sqlstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// childURL is an environment variable. When it is set, this binary is a writer that the
// test kills.
const childURL = "EBB_TEST_CHILD_JOURNAL"

func TestMain(m *testing.M) {
	if u := os.Getenv(childURL); u != "" {
		os.Exit(child(u))
	}
	if u := os.Getenv(loggingChild); u != "" {
		os.Exit(logging(u))
	}
	os.Exit(m.Run())
}

// child appends until it is killed, and prints the id of each acknowledged lease.
func child(u string) int {
	s, err := sqlstore.Open(context.Background(), sqlstore.Config{URL: u})
	if err == nil {
		err = openOne(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				r := mint("tsk_1")
				if err := s.Append(context.Background(), r); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				fmt.Println(r.IssueLease.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return 1
}

// proven exports the audit log and verifies it.
func proven(t *testing.T, s *sqlstore.Store) audit.Report {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for e, err := range s.Entries(context.WithoutCancel(t.Context()), broker.EntryFilter{}) {
		if err == nil {
			err = enc.Encode(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := audit.Verify(&out, jose.KeySet{})
	if err != nil || r.Partial {
		t.Fatalf("got %+v, %v", r, err)
	}
	return r
}

// After kill -9 every acknowledged unit is stored completely, and every chain verifies.
//
//ebb:invariant I1
func TestKillNine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		u := empty(t)
		acked := map[string]bool{}
		for run := range 3 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childURL+"="+u)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				acked[lines.Text()] = true
				if n == 200+rand.IntN(300) || n == 600 {
					_ = cmd.Process.Kill() // then read the output from before the kill
				}
			}
			_ = cmd.Wait()
			s := open(t, u)
			got := read(t, s)
			for id := range acked {
				if got[id] != 1 {
					t.Fatalf("run %d: acknowledged lease %s is gone", run, id)
				}
			}
			if r := proven(t, s); len(r.Writers) != 2*run+1 {
				t.Errorf("run %d: got %d chains, want one for each child and each reader before", run, len(r.Writers))
			}
			if err := s.Append(t.Context(), broker.Record{Entries: []audit.Entry{storetest.Entry(audit.BrokerStarted, "")}}); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// persist appends until the outcome is known, as the contract allows.
func persist(ctx context.Context, s *sqlstore.Store, r broker.Record) error {
	for {
		err := s.Append(ctx, r)
		switch {
		case err == nil, errors.Is(err, broker.ErrExists):
			return nil
		case errors.Is(err, broker.ErrTaskClosed), errors.Is(err, broker.ErrDone), errors.Is(err, broker.ErrNotFound), ctx.Err() != nil:
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// When the server ends connections at any moment, no acknowledged unit is lost, and
// repeating a unit with an unknown outcome never stores it twice.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	u := sqlstoretest.Postgres(t)
	s := mustOpenOne(t, open(t, u))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for range 300 { // bound: if connecting takes longer than the connection lives, no unit is ever appended
			select {
			case <-done:
				return
			case <-time.After(15 * time.Millisecond):
				storetest.PostgresExec(t, u, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			}
		}
	})
	var mu sync.Mutex
	want := map[string]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 60 {
				r := mint("tsk_1")
				if err := persist(ctx, s, r); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				want[r.IssueLease.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(done)
	killer.Wait()
	s = open(t, u) // its readers were never killed
	got := read(t, s)
	if len(got) != len(want) {
		t.Errorf("%d units are there, want %d", len(got), len(want))
	}
	if r := proven(t, s); len(r.Writers) != 1 {
		t.Errorf("got %+v, want one chain", r.Writers)
	}
}

// proxy forwards to a server until deaf is set. From then on it forwards the client's
// bytes but no answer, and ends the connection.
type proxy struct {
	addr string
	deaf atomic.Bool
}

func newProxy(t *testing.T, server string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			go func() {
				defer func() { _ = c.Close() }()
				buf := make([]byte, 64<<10)
				for {
					n, err := up.Read(buf)
					if err != nil || p.deaf.Load() {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return p
}

// A commit whose acknowledgement is lost has an unknown outcome, and the chain continues
// after the committed entries.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(sqlstoretest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, u.Host)
	u.Host = p.addr
	s := mustOpenOne(t, open(t, u.String()))
	for round := range 5 {
		before := mint("tsk_1")
		if err := s.Append(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		p.deaf.Store(true)
		lost := mint("tsk_1")
		err := s.Append(t.Context(), lost)
		if !errors.Is(err, sqlstore.ErrUnknown) || errors.Is(err, broker.ErrExists) || errors.Is(err, broker.ErrDone) {
			t.Errorf("round %d: got %v, want %v", round, err, sqlstore.ErrUnknown)
		}
		p.deaf.Store(false)
		if err := persist(t.Context(), s, lost); err != nil {
			t.Error(err)
		}
		if err := s.Append(t.Context(), lost); !errors.Is(err, broker.ErrExists) {
			t.Errorf("round %d: repeated: got %v, want %v", round, err, broker.ErrExists)
		}
	}
	if n := len(read(t, s)); n != 10 {
		t.Errorf("%d units are there, want 10", n)
	}
	proven(t, s)
}

// The server stops and starts again: calls fail in between, and succeed afterwards
// without a restart of ebb.
func TestServerAway(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(sqlstoretest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := u.String()
	p := newProxy(t, u.Host)
	u.Host = p.addr
	s := mustOpenOne(t, open(t, u.String()))
	p.deaf.Store(true)
	for range 3 {
		if err := s.Append(t.Context(), mint("tsk_1")); err == nil {
			t.Error("acknowledged without a server")
		}
		if _, err := s.Heads(t.Context()); err == nil {
			t.Error("answers without a server")
		}
	}
	p.deaf.Store(false)
	if err := persist(t.Context(), s, mint("tsk_1")); err != nil {
		t.Error(err)
	}
	// An idle connection that the server ended causes no error.
	storetest.PostgresExec(t, direct, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	time.Sleep(1100 * time.Millisecond)
	if err := s.Append(t.Context(), mint("tsk_1")); err != nil {
		t.Errorf("after an idle connection died: %v", err)
	}
}

// Replicas that move the same rows in opposite orders deadlock, and no caller gets an
// error.
func TestReplicasInOppositeOrders(t *testing.T) {
	t.Parallel()
	u := sqlstoretest.Postgres(t)
	replicas := []*sqlstore.Store{open(t, u), open(t, u)}
	var ids []string
	for range 10 {
		task := storetest.Task()
		ids = append(ids, task.ID)
		if err := replicas[0].Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 40 {
				id := ids[(i*3+j)%len(ids)]
				if i%2 == 1 {
					id = ids[len(ids)-1-(i*3+j)%len(ids)]
				}
				state := []broker.TaskState{broker.TaskOpen, broker.TaskPaused}[j%2]
				r := broker.Record{MoveTask: &broker.TaskMove{ID: id, State: state, At: storetest.Epoch}, Entries: []audit.Entry{storetest.Entry(audit.TaskPaused, id)}}
				if err := replicas[i%2].Append(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r := proven(t, replicas[0]); r.Entries != 16*40 {
		t.Errorf("got %d entries, want %d", r.Entries, 16*40)
	}
}
