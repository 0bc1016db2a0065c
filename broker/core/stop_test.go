package core_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
)

// patient is far longer than a close takes on an idle machine while a store does not answer, which
// is about two seconds.
const patient = 8 * time.Second

// loggedIn returns a runner without a token: it logs in and uses the token once.
func loggedIn(t *testing.T, e *brokertest.Env, id string) (broker.Principal, broker.Token) {
	t.Helper()
	key := e.Keys[id]
	tok, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, id, key), e.Prove(t, key), "")
	if err != nil {
		t.Fatalf("login: %v", err)
	}
	who, err := e.Broker.AuthenticateToken(t.Context(), tok.Token.Reveal(), e.Prove(t, key))
	if err != nil {
		t.Fatalf("the token: %v", err)
	}
	return who, tok
}

// stopped closes a task as a runner that logs in first, and returns how far the close got; nil = it
// is recorded everywhere.
func stopped(t *testing.T, e *brokertest.Env, taskID string) *broker.Reached {
	t.Helper()
	began := time.Now()
	who, _ := loggedIn(t, e, brokertest.Runner)
	_, err := e.Broker.CompleteTask(t.Context(), who, taskID, 0)
	if took := time.Since(began); took > patient {
		t.Errorf("the end took %s", took)
	}
	if err == nil {
		return nil
	}
	k := kindOf(t, err, broker.Unavailable)
	if k.Reached == nil || !strings.Contains(k.Public, "refused here") {
		t.Fatalf("told %q, %+v", k.Public, k.Reached)
	}
	return k.Reached
}

// I6: a runner without a token closes its task while a store is dead, hangs, or refuses writes. The
// response says how far the close got, the task is refused here at once, and the close is recorded
// when the store is back.
//
//ebb:invariant I6 A runner without an access token can complete its task while a store is unreachable, frozen, locked or full
//ebb:invariant I6 A runner that completes a task while a store does not answer soon receives a response with the progress made so far
func TestStopWithoutAToken(t *testing.T) {
	t.Parallel()
	reads, liveStore := []string{"Append", "Tasks", "Leases", "Requests"}, []string{"Admit", "SetState", "EndLease", "Status", "Touch", "PutTask", "PutLease"}
	for name, c := range map[string]struct {
		store, liveStore []string
		hangs            bool
		want             broker.Reached
	}{
		"database dead":         {store: reads, want: broker.Reached{Process: "done", LiveStore: "done", Database: "pending", Restart: "done"}},
		"database frozen":       {store: reads, hangs: true, want: broker.Reached{Process: "done", LiveStore: "done", Database: "pending", Restart: "done"}},
		"database full":         {store: []string{"Append"}, want: broker.Reached{Process: "done", LiveStore: "done", Database: "pending", Restart: "done"}},
		"database locked":       {store: []string{"Append"}, hangs: true, want: broker.Reached{Process: "done", LiveStore: "done", Database: "pending", Restart: "done"}},
		"live store dead":       {liveStore: liveStore, want: broker.Reached{Process: "done", LiveStore: "pending", Database: "done", Restart: "done"}},
		"live store frozen":     {liveStore: liveStore, hangs: true, want: broker.Reached{Process: "done", LiveStore: "pending", Database: "done", Restart: "done"}},
		"both dead":             {store: reads, liveStore: liveStore, want: broker.Reached{Process: "done", LiveStore: "pending", Database: "pending", Restart: "done"}},
		"both frozen":           {store: reads, liveStore: liveStore, hangs: true, want: broker.Reached{Process: "done", LiveStore: "pending", Database: "pending", Restart: "done"}},
		"both, and no data dir": {store: reads, liveStore: liveStore, want: broker.Reached{Process: "done", LiveStore: "pending", Database: "pending", Restart: "lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pending-ends")
			if c.want.Restart == broker.ReachedLost {
				file = ""
			}
			x := attacked(t, brokertest.Config{RealTime: true, PendingEnds: file})
			s := x.Open(t, brokertest.Spec())
			tok := minted(t, s, "orders:eu/1:read").Token.Reveal()
			heal, fault := make(chan struct{}), func() error { return errDown }
			if c.hangs {
				fault = func() error { <-heal; return errDown }
			}
			for _, op := range c.store {
				x.store.on(op, fault)
			}
			for _, op := range c.liveStore {
				x.liveStore.on(op, fault)
			}
			if got := stopped(t, x.Env, s.Task.ID); got == nil || *got != c.want {
				t.Errorf("reached %+v, want %+v", got, c.want)
			}
			if i, err := x.Broker.Introspect(t.Context(), x.who(brokertest.Operator), tok); err != nil || i.Active {
				t.Errorf("introspection here: active %v, %v", i.Active, err)
			}
			if c.liveStore == nil { // every replica asks the LiveStore
				if activeAt(t, x, replicaUnhooked(t, x), tok) {
					t.Error("active at another replica")
				}
			}
			for _, op := range c.store {
				x.store.on(op, nil)
			}
			for _, op := range c.liveStore {
				x.liveStore.on(op, nil)
			}
			close(heal)
			x.janitor(t, x.Broker)
			waitClosed(t, x.Env, s.Task.ID, broker.CauseCompleted)
			eventually(t, "on the record", func() bool {
				es := entries(t, x, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TaskClosed})
				return len(es) == 1 && es[0].Actor == brokertest.Runner
			})
			if x.Active(t, tok) {
				t.Error("active after the store came back")
			}
			if _, err := s.Ask(t, "orders:eu/1:read"); err == nil {
				t.Error("it mints")
			}
			who, after := loggedIn(t, x.Env, brokertest.Runner)
			if strings.HasPrefix(after.API, "ends") || who.Certain() != nil {
				t.Errorf("a login after the store came back: %q, %v", after.API, who.Certain())
			}
		})
	}
}

// replicaUnhooked returns another replica without hooks.
func replicaUnhooked(t *testing.T, x *target) *core.Broker {
	t.Helper()
	return x.replica(t, func(c *core.Config) { c.PendingEnds = "" })
}

// A token that was issued while a store did not answer only closes and revokes; the proof of a
// resource server, which does neither, is refused as before.
//
//ebb:invariant I6 An access token issued while a store does not answer can only complete tasks and revoke credentials
func TestEndsOnlyToken(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on("Append", func() error { return errDown })
	who, tok := loggedIn(t, x.Env, brokertest.Operator)
	x.store.on("Append", nil)
	if !strings.HasPrefix(tok.API, "ends ") || tok.ExpiresIn > 60 {
		t.Errorf("scope %q for %d s", tok.API, tok.ExpiresIn)
	}
	for name, err := range map[string]error{
		"open":  func() error { _, _, err := x.Broker.OpenTask(t.Context(), who, brokertest.Spec()); return err }(),
		"pause": func() error { _, err := x.Broker.PauseTask(t.Context(), who, s.Task.ID, "why"); return err }(),
		"list":  func() error { _, err := x.Broker.Tasks(t.Context(), who, broker.TaskFilter{}); return err }(),
		"introspect": func() error {
			_, err := x.Broker.Introspect(t.Context(), who, minted(t, s, "orders:eu/1:read").Token.Reveal())
			return err
		}(),
	} {
		if name == "list" && err == nil {
			continue // reading the audit log takes no fresh proof
		}
		if broker.AsError(err).Kind != broker.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := x.who(brokertest.Runner2)
	if _, err := x.Broker.CompleteTask(t.Context(), other.Doubtful(errDown), s.Task.ID, 0); broker.AsError(err).Kind != broker.NotFound {
		t.Errorf("another runner's task: %v", err)
	}
	if _, err := x.Broker.StopTask(t.Context(), who, s.Task.ID, "leaked", 0); err != nil {
		t.Errorf("an end: %v", err)
	}
	x.store.on("Append", func() error { return errDown })
	key := x.Keys[brokertest.Server]
	_, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Server, key), x.Prove(t, key), "")
	kindOf(t, err, broker.Unavailable)
	wrong := x.Keys[brokertest.Runner2]
	if _, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Runner, wrong), x.Prove(t, wrong), ""); broker.AsError(err).Kind != broker.Unauthenticated {
		t.Errorf("a key that is not the runner's: %v", err)
	}
}

// TestLoginWaitsForNoCommit: a login waits for a hanging commit, which no deadline can withdraw, no
// longer than its limit. With a frozen database the first login took 10 s.
//
//ebb:invariant I6 The login of a runner that completes its task does not wait for a database commit that hangs
func TestLoginWaitsForNoCommit(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{RealTime: true})
	heal := make(chan struct{})
	time.AfterFunc(patient, func() { close(heal) })
	x.store.onDone("Append", func() error { <-heal; return nil })
	if _, tok := loggedIn(t, x.Env, brokertest.Runner); !strings.HasPrefix(tok.API, "ends ") {
		t.Errorf("the login waited for the commit: scope %q", tok.API)
	}
}

// I2: a close that no store has accepted survives a kill of ebb: the next start refuses the task
// before it serves any request, and records the close. Also with a truncated file.
//
//ebb:invariant I6 A completion or revocation that no store has accepted survives a kill of ebb and applies from the next start
//ebb:invariant I6 An operator can revoke a credential by ID while the database cannot name the credential's owner
func TestPendingEndsOutliveAKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pending-ends")
	x := attacked(t, brokertest.Config{PendingEnds: file})
	s, other := x.Open(t, brokertest.Spec()), x.Open(t, brokertest.Spec())
	tok, lease := minted(t, s, "orders:eu/1:read").Token.Reveal(), minted(t, other, "orders:eu/1:read")
	for _, op := range []string{"Append", "Tasks", "Leases", "Requests"} {
		x.store.on(op, func() error { return errDown })
	}
	if r := stopped(t, x.Env, s.Task.ID); r == nil || r.Restart != broker.ReachedDone {
		t.Fatalf("%+v", r)
	}
	who, _ := loggedIn(t, x.Env, brokertest.Operator)
	_, err := x.Broker.RevokeLease(t.Context(), who, lease.LeaseID, "leaked")
	kindOf(t, err, broker.Unavailable)
	if i, err := x.Broker.Introspect(t.Context(), x.who(brokertest.Operator), lease.Token.Reveal()); err != nil || i.Active {
		t.Errorf("a credential that was ended without its record: active %v, %v", i.Active, err)
	}
	// The process is killed: its memory and the LiveStore in it are lost. A second close was being
	// written.
	x.memory.lose()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(file)
	used := len(strings.TrimRight(string(raw), "\n")) + 1
	if _, err := f.WriteAt([]byte(`{"task":{"ID":"tsk_cut`), int64(used)); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	x.Broker = x.replica(t)
	if x.Active(t, tok) || x.Active(t, lease.Token.Reveal()) {
		t.Error("active after the restart")
	}
	waitClosed(t, x.Env, s.Task.ID, broker.CauseCompleted)
	if l, err := x.Broker.Lease(t.Context(), x.who(brokertest.Operator), lease.LeaseID); err != nil || l.State != broker.LeaseRevoked || l.RevokedBy != brokertest.Operator {
		t.Errorf("%+v, %v", l, err)
	}
	if raw, err := os.ReadFile(file); err != nil || strings.TrimRight(string(raw), "\n") != "" {
		t.Errorf("the file holds %q (%v)", strings.TrimRight(string(raw), "\n"), err)
	}
}

// I6: an operator without a token revokes a credential by RFC 7009 while a store is dead.
//
//ebb:invariant I6 A client assertion whose earlier use cannot be checked is accepted only to complete tasks and revoke credentials
func TestRevokeTokenWithoutAStore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(x *target){
		"database": func(x *target) { x.cutStore(errDown) },
		"live store": func(x *target) {
			x.liveStore.on("Admit", func() error { return errDown })
			x.liveStore.on("EndLease", func() error { return errDown })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			s := x.Open(t, brokertest.Spec())
			tok := minted(t, s, "orders:eu/1:read").Token.Reveal()
			fault(x)
			who, err := x.Broker.AuthenticateAssertion(t.Context(), x.Assertion(t, brokertest.Operator, x.Keys[brokertest.Operator]), "", broker.Possession{})
			if err != nil {
				t.Fatal(err)
			}
			k := kindOf(t, x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: &who}, tok), broker.Unavailable)
			if k.Reached == nil || x.Active(t, tok) {
				t.Errorf("reached %+v", k.Reached)
			}
		})
	}
}

func (x *target) cutStore(err error) {
	for _, op := range []string{"Append", "Leases", "Tasks", "Requests"} {
		x.store.on(op, func() error { return err })
	}
}

// The same with a real Redis that is killed, stopped, or out of memory.
//
//ebb:invariant I6 A runner without an access token can complete its task while a store is unreachable, frozen, locked or full
//ebb:invariant I6 A client assertion whose earlier use cannot be checked is accepted only to complete tasks and revoke credentials
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, heal func(*testing.T, *redistest.Server)
	}{
		"dead":   {func(_ *testing.T, r *redistest.Server) { r.Kill() }, func(_ *testing.T, r *redistest.Server) { r.Start() }},
		"frozen": {func(_ *testing.T, r *redistest.Server) { r.Signal(syscall.SIGSTOP) }, func(_ *testing.T, r *redistest.Server) { r.Signal(syscall.SIGCONT) }},
		"full": {func(t *testing.T, r *redistest.Server) { command(t, r, "CONFIG SET maxmemory 1") },
			func(t *testing.T, r *redistest.Server) { command(t, r, "CONFIG SET maxmemory 0") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.New(t)
			liveStore, err := redisstore.New(t.Context(), redisstore.Config{Addrs: []string{r.Addr}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = liveStore.Close() })
			e := brokertest.New(t, brokertest.Config{LiveStore: liveStore, RealTime: true, Run: true})
			s := e.Open(t, brokertest.Spec())
			tok := minted(t, s, "orders:eu/1:read").Token.Reveal()
			c.fault(t, r)
			if got := stopped(t, e, s.Task.ID); got == nil || got.LiveStore != broker.ReachedPending || got.Database != broker.ReachedDone {
				t.Errorf("reached %+v", got)
			}
			if i, err := e.Broker.Introspect(t.Context(), e.Principals[brokertest.Operator], tok); err == nil && i.Active {
				t.Error("active here")
			}
			c.heal(t, r)
			eventually(t, "the end is in Redis", func() bool {
				l, err := liveStore.Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
				return err == nil && l.State == broker.TaskClosed
			})
		})
	}
}

// command sends a command to Redis.
func command(t *testing.T, r *redistest.Server, line string) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer := make([]byte, 5)
	if _, err := fmt.Fprint(c, line, "\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(answer); err != nil || !strings.HasPrefix(string(answer), "+OK") {
		t.Fatalf("%s: %q, %v", line, answer, err)
	}
}
