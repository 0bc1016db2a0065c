package broker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/attest"
	"ebb/attest/attesttest"
	"ebb/attest/jose"
	"ebb/attest/oidc"
	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/memstore"
	"ebb/broker/sqlstore"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// hooks let a test act before and after any call of a store, and make it fail.
type hooks struct {
	mu            sync.Mutex
	before, after map[string]func() error
	calls         map[string]int
}

func (h *hooks) on(op string, f func() error)     { h.set(&h.before, op, f) }
func (h *hooks) onDone(op string, f func() error) { h.set(&h.after, op, f) }

func (h *hooks) set(m *map[string]func() error, op string, f func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *m == nil {
		*m = map[string]func() error{}
	}
	(*m)[op] = f
}

// once is a hook that fails one time.
func once(err error) func() error {
	var o sync.Once
	return func() (out error) {
		o.Do(func() { out = err })
		return out
	}
}

func (h *hooks) run(m *map[string]func() error, op string) error {
	h.mu.Lock()
	f := (*m)[op]
	h.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// start gives up waiting for a hook that hangs when ctx is done, as stores do.
func (h *hooks) start(ctx context.Context, op string) error {
	h.mu.Lock()
	if h.calls == nil {
		h.calls = map[string]int{}
	}
	h.calls[op]++
	hooked := h.before[op] != nil
	h.mu.Unlock()
	if !hooked {
		return nil
	}
	answer := make(chan error, 1)
	go func() { answer <- h.run(&h.before, op) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hooks) end(op string, err error) error {
	if err != nil {
		return err
	}
	return h.run(&h.after, op)
}

func (h *hooks) count(op string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[op]
}

// memory is a ledger that several replicas share and that can lose everything.
type memory struct {
	mu   sync.Mutex
	l    broker.Ledger
	now  func() time.Time
	gone int64 // how often it lost everything
}

func (m *memory) get() broker.Ledger {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.l
}

func (m *memory) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.l = memstore.New(memstore.Config{Now: m.now})
	m.gone++
}

// Losses tells a replica at once. A real one hears of them by its next Check.
func (m *memory) Losses() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// hookLedger is one replica's way to the shared ledger.
type hookLedger struct {
	*memory
	h *hooks
}

func (l hookLedger) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if err := l.h.start(ctx, "PutTask"); err != nil {
		return err
	}
	return l.h.end("PutTask", l.get().PutTask(ctx, t, keep))
}

func (l hookLedger) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if err := l.h.start(ctx, "SetState"); err != nil {
		return broker.Counts{}, false, err
	}
	c, first, err := l.get().SetState(ctx, id, s, at, keep)
	return c, first, l.h.end("SetState", err)
}

func (l hookLedger) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	if err := l.h.start(ctx, "Touch"); err != nil {
		return broker.Live{}, err
	}
	live, err := l.get().Touch(ctx, id, u)
	return live, l.h.end("Touch", err)
}

func (l hookLedger) Due(ctx context.Context, now, hold time.Time, n int) ([]string, error) {
	if err := l.h.start(ctx, "Due"); err != nil {
		return nil, err
	}
	return l.get().Due(ctx, now, hold, n)
}

func (l hookLedger) PutLease(ctx context.Context, x broker.LiveLease, limit int, refill bool) error {
	if err := l.h.start(ctx, "PutLease"); err != nil {
		return err
	}
	return l.h.end("PutLease", l.get().PutLease(ctx, x, limit, refill))
}

func (l hookLedger) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (bool, error) {
	if err := l.h.start(ctx, "EndLease"); err != nil {
		return false, err
	}
	first, err := l.get().EndLease(ctx, x, at)
	return first, l.h.end("EndLease", err)
}

func (l hookLedger) Status(ctx context.Context, task, lease string, now time.Time) (bool, error) {
	if err := l.h.start(ctx, "Status"); err != nil {
		return false, err
	}
	return l.get().Status(ctx, task, lease, now)
}

func (l hookLedger) Follow(ctx context.Context, cursor string, n int, wait time.Duration) ([]broker.Event, string, error) {
	return l.get().Follow(ctx, cursor, n, min(wait, 100*time.Millisecond))
}

func (l hookLedger) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := l.h.start(ctx, "Admit"); err != nil {
		return broker.Live{}, err
	}
	live, err := l.get().Admit(ctx, a)
	return live, l.h.end("Admit", err)
}

func (l hookLedger) Put(ctx context.Context, key, value string, until time.Time) error {
	if err := l.h.start(ctx, "Put"); err != nil {
		return err
	}
	return l.h.end("Put", l.get().Put(ctx, key, value, until))
}

func (l hookLedger) Take(ctx context.Context, key string) (string, error) {
	return l.get().Take(ctx, key)
}

func (l hookLedger) Pace(ctx context.Context, key string, now time.Time, interval, step time.Duration, until time.Time) (time.Duration, bool, error) {
	return l.get().Pace(ctx, key, now, interval, step, until)
}

func (l hookLedger) Check(ctx context.Context) error { return l.get().Check(ctx) }
func (l hookLedger) Mark(ctx context.Context) error  { return l.get().Mark(ctx) }
func (l hookLedger) Close() error                    { return nil }

// hookStore is the journal and the desk.
type hookStore struct {
	*sqlstore.Store
	h *hooks
}

func (s hookStore) Append(ctx context.Context, r broker.Record) error {
	ops := []string{"Append"}
	if r.MoveTask != nil {
		ops = append(ops, "Append.move")
	}
	for _, e := range r.Entries {
		ops = append(ops, e.Kind)
	}
	for _, op := range ops {
		if err := s.h.start(ctx, op); err != nil {
			return err
		}
	}
	err := s.Store.Append(ctx, r)
	for _, op := range ops {
		err = s.h.end(op, err)
	}
	return err
}

func (s hookStore) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if err := s.h.start(ctx, "Take"); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, provider, now, hold, n)
}

func (s hookStore) Tasks(ctx context.Context, f broker.TaskFilter) ([]broker.Task, error) {
	if err := s.h.start(ctx, "Tasks"); err != nil {
		return nil, err
	}
	return s.Store.Tasks(ctx, f)
}

func (s hookStore) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if err := s.h.start(ctx, "Leases"); err != nil {
		return nil, err
	}
	return s.Store.Leases(ctx, f)
}

func (s hookStore) Requests(ctx context.Context, f broker.RequestFilter) ([]broker.Request, error) {
	if err := s.h.start(ctx, "Requests"); err != nil {
		return nil, err
	}
	return s.Store.Requests(ctx, f)
}

func (s hookStore) Vote(ctx context.Context, v broker.Vote, until time.Time, entries ...audit.Entry) (broker.Request, error) {
	if err := s.h.start(ctx, "Vote"); err != nil {
		return broker.Request{}, err
	}
	r, err := s.Store.Vote(ctx, v, until, entries...)
	return r, s.h.end("Vote", err)
}

// target is a broker whose stores can be attacked.
type target struct {
	*brokertest.Env
	ledger, store *hooks
	memory        *memory
	db            *sqlstore.Store
	dir           string // of the database
}

func attacked(t *testing.T, c brokertest.Config) *target {
	t.Helper()
	x := &target{ledger: &hooks{}, store: &hooks{}, dir: t.TempDir()}
	// The stores tell the time by the clock of the environment, which comes later.
	var clock atomic.Pointer[brokertest.Clock]
	start := c.Start
	if start.IsZero() {
		start = time.Now().UTC().Truncate(time.Second)
	}
	c.Start = start
	now := func() time.Time {
		if c := clock.Load(); c != nil {
			return c.Now()
		}
		return start
	}
	x.memory = &memory{now: now}
	x.memory.lose()
	x.db = brokertest.OpenStore(t, filepath.Join(x.dir, "ebb.db"), now)
	c.Ledger, c.Journal, c.Desk = hookLedger{x.memory, x.ledger}, hookStore{x.db, x.store}, hookStore{x.db, x.store}
	x.Env = brokertest.New(t, c)
	clock.Store(x.Clock)
	return x
}

// replica is another broker on the same stores, none of whose calls is hooked.
func (x *target) replica(t *testing.T, change ...func(*broker.Config)) *broker.Broker {
	t.Helper()
	cfg := x.Config
	cfg.Registerer = nil
	cfg.Ledger, cfg.Journal, cfg.Desk = hookLedger{x.memory, &hooks{}}, x.db, x.db
	for _, f := range change {
		f(&cfg)
	}
	b, err := broker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (x *target) janitor(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
}

func (x *target) who(id string) broker.Principal { return x.Principals[id] }

func activeAt(t *testing.T, x *target, b *broker.Broker, token string) bool {
	t.Helper()
	i, err := b.Introspect(t.Context(), x.who(brokertest.Operator), token)
	if err != nil {
		t.Fatal(err)
	}
	return i.Active
}

func minted(t *testing.T, s *brokertest.Sandbox, scope string) broker.Token {
	t.Helper()
	tok, err := s.Ask(t, scope)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// eventually waits for what the janitor does each second of real time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 250 {
		if is() {
			return
		}
		time.Sleep(40 * time.Millisecond)
	}
	t.Errorf("not within 10 s: %s", what)
}

func entries(t *testing.T, x *target, f broker.EntryFilter) []audit.Entry {
	t.Helper()
	seq, err := x.Broker.Entries(t.Context(), x.who(brokertest.Auditor), f)
	if err != nil {
		t.Fatal(err)
	}
	var out []audit.Entry
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// ---- Something is left alive ----

// A revocation that met a blip of the ledger is on the record and nowhere else.
// Asking again, as the answer says, must finish it on every replica.
func TestAttackRevocationAfterABlip(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(*target, broker.Token) error{
		"lease": func(x *target, tok broker.Token) error {
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			return err
		},
		"token": func(x *target, tok broker.Token) error {
			return x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, tok.Token.Reveal())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
			x.ledger.on("EndLease", once(errDown))
			kindOf(t, revoke(x, tok), broker.Unavailable)
			if err := revoke(x, tok); err != nil {
				t.Fatal(err)
			}
			if activeAt(t, x, other, tok.Token.Reveal()) {
				t.Error("revoked on the record, confirmed to the caller, alive on the other replica")
			}
		})
	}
}

// Nobody asks again: the broker owes the rest by itself, as for tasks.
func TestAttackRevocationIsOwed(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*target){
		"ledger":  func(x *target) { x.ledger.on("EndLease", once(errDown)) },
		"journal": func(x *target) { x.store.on(audit.LeaseRevoked, once(errDown)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
			fault(x)
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			kindOf(t, err, broker.Unavailable)
			x.janitor(t, x.Broker)
			eventually(t, "the revocation is finished", func() bool {
				l, err := other.Lease(t.Context(), x.who(brokertest.Auditor), tok.LeaseID)
				return err == nil && l.State == broker.LeaseRevoked && !activeAt(t, x, other, tok.Token.Reveal())
			})
		})
	}
}

// I6: the token says all that is needed to refuse it, so a journal that is down
// must not keep it alive.
func TestAttackRevocationNeedsNoJournal(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	first, second := minted(t, s, "orders:eu/1:read"), minted(t, s, "orders:eu/2:read")
	for _, op := range []string{"Append", "Leases", "Tasks"} {
		x.store.on(op, func() error { return errDown })
	}
	err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, first.Token.Reveal())
	kindOf(t, err, broker.Unavailable)
	r := s.Request(t, "orders:eu/1:read")
	err = x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, second.Token.Reveal())
	kindOf(t, err, broker.Unavailable)
	for _, tok := range []broker.Token{first, second} {
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("alive although the ledger could have refused it")
		}
	}
}

// I6: a flood of mints, the sandbox's own or of another task of its owner, must
// not keep it from giving a credential back.
func TestAttackRevocationLane(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps.MintsPerMinute = 3
	s := x.Open(t, spec)
	tok := minted(t, s, "orders:eu/1:read")
	var err error
	for range 5 {
		_, err = s.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	r := s.Request(t, "orders:eu/1:read")
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, tok.Token.Reveal()); err != nil {
		t.Errorf("a flood of mints blocks revocation: %v", err)
	}
	if x.Active(t, tok.Token.Reveal()) {
		t.Error("still active")
	}
}

// The ledger is lost between the two halves of an end, and a replica refills it
// from a journal that does not know of the end yet.
func TestAttackLossBetweenTheHalvesOfAnEnd(t *testing.T) {
	t.Parallel()
	t.Run("task", func(t *testing.T) {
		t.Parallel()
		x := attacked(t, brokertest.Config{})
		s := x.Open(t, brokertest.Spec())
		tok := minted(t, s, "orders:eu/1:read")
		var other *broker.Broker
		x.store.on("Append.move", func() error {
			x.memory.lose()
			other = x.replica(t)
			return nil
		})
		if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil {
			t.Fatal(err)
		}
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("the end is acknowledged and the token is alive on the replica that refilled")
		}
		if _, err := other.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err == nil {
			t.Error("a completed task mints")
		}
	})
	t.Run("lease", func(t *testing.T) {
		t.Parallel()
		x := attacked(t, brokertest.Config{})
		tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
		var other *broker.Broker
		x.store.on(audit.LeaseRevoked, func() error {
			x.memory.lose()
			other = x.replica(t)
			return nil
		})
		if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, ""); err != nil {
			t.Fatal(err)
		}
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("the revocation is acknowledged and the token is alive on the replica that refilled")
		}
	})
}

// A token is narrowed while it is revoked: the child must not be born after the
// revocation was confirmed.
func TestAttackNarrowingADeadParent(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	parent := minted(t, s, "orders:eu/1:read orders:eu/2:read")
	x.store.on(audit.LeaseIssued, func() error {
		return x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, parent.Token.Reveal())
	})
	r := s.Request(t, "orders:eu/1:read")
	r.Subject = broker.Subject{AccessToken: parent.Token.Reveal(), Fault: broker.Invalid}
	if child, err := x.Broker.Token(t.Context(), r); err == nil && x.Active(t, child.Token.Reveal()) {
		t.Error("a token was narrowed from one that was revoked before")
	}
}

// RFC 7009 on a token for the API: success must not be a lie.
func TestAttackRevokedPrincipalTokenWorks(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	key := x.Keys[brokertest.Runner]
	tok, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Runner, key), x.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	token := tok.Token.Reveal()
	if _, err := x.Broker.AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token)); err != nil {
		t.Fatal(err)
	}
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, token); err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token))
	kindOf(t, err, broker.Unauthenticated)
	_, err = x.replica(t).AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token))
	kindOf(t, err, broker.Unauthenticated)
}

// ---- Stores that are late, lost or unsure ----

// The dead-man's switch must not hang on a journal that hangs: what is due is
// refused at once, all of it.
func TestAttackLateJournalHoldsUpTheJanitor(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat = 30
	var tokens []string
	for range 5 {
		tokens = append(tokens, minted(t, x.Open(t, spec), "orders:eu/1:read").Token.Reveal())
	}
	release := make(chan struct{})
	x.store.on("Append.move", func() error { <-release; return nil })
	x.janitor(t, x.Broker)
	t.Cleanup(func() { close(release) }) // before the janitor stops
	other := x.replica(t)
	x.Clock.Add(31 * time.Second)
	eventually(t, "all silent tasks are refused", func() bool {
		return !slices.ContainsFunc(tokens, func(tok string) bool { return activeAt(t, x, other, tok) })
	})
	x.memory.lose()
	if err := x.memory.get().Check(t.Context()); !errors.Is(err, broker.ErrLost) {
		t.Fatal(err)
	}
	eventually(t, "the loss of the ledger is noticed", func() bool { return x.memory.get().Check(t.Context()) == nil })
}

// More tasks than one look of the janitor takes: it looks again at once.
func TestAttackManySilentTasks(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat, spec.Ticket = 30, false
	for range 110 {
		if _, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec); err != nil {
			t.Fatal(err)
		}
	}
	x.Clock.Add(31 * time.Second)
	var looks []time.Time
	x.ledger.on("Due", func() error { looks = append(looks, time.Now()); return nil })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = x.Broker.Run(ctx) }()
	eventually(t, "110 silent tasks are closed", func() bool {
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{Open: true})
		return err == nil && len(ts) == 0
	})
	stop()
	<-done
	if len(looks) < 2 || looks[1].Sub(looks[0]) > 900*time.Millisecond {
		t.Errorf("it looked at %v", looks)
	}
}

// A ledger that hangs must not keep an end off the record: it is all that a
// restart has.
func TestAttackHangingLedgerHoldsUpTheRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	release := make(chan struct{})
	defer close(release)
	for _, op := range []string{"SetState", "EndLease"} {
		x.ledger.on(op, func() error { <-release; return errDown })
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "")
		done <- struct{}{}
	}()
	go func() {
		_, _ = x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
		done <- struct{}{}
	}()
	<-done
	<-done
	ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}})
	if err != nil || ts[0].State != broker.TaskClosed {
		t.Errorf("the end of the task is not on the record: %v", err)
	}
	if n := len(entries(t, x, broker.EntryFilter{Kind: audit.LeaseRevoked})); n != 1 {
		t.Error("the end of the credential is not on the record")
	}
}

// The process is asked to stop while it owes an end: it pays first.
func TestAttackStoppedWhileOwing(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on("Append.move", once(errDown))
	_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	kindOf(t, err, broker.Unavailable)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_ = x.Broker.Run(ctx)
	ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}})
	if err != nil || ts[0].State != broker.TaskClosed {
		t.Errorf("it stopped and took the end with it: %v", err)
	}
}

// An end must not wait for a journal that does not answer: the ledger knows whose
// task it is.
func TestAttackHangingJournalHoldsUpAnEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	ctx, hangUp := context.WithCancel(t.Context())
	hang := func() error { <-ctx.Done(); return ctx.Err() }
	x.store.on("Tasks", hang)
	x.store.on("Append.move", hang)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	}()
	eventually(t, "the task is refused", func() bool { return !activeAt(t, x, other, tok.Token.Reveal()) })
	hangUp()
	<-done
}

// A runner that is alive must not lose its tasks because the journal is away.
func TestAttackHeartbeatWithoutJournal(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	for _, op := range []string{"Append", "Tasks"} {
		x.store.on(op, func() error { return errDown })
	}
	if _, err := x.Broker.Beat(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil {
		t.Errorf("a sign of life was refused: %v", err)
	}
	_, err := x.Broker.Beat(t.Context(), x.who(brokertest.Runner2), s.Task.ID)
	if err == nil {
		t.Error("another runner's sign of life was taken")
	}
}

// Between the loss of the ledger and its discovery a task is not unknown.
func TestAttackLossIsNotTheEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.memory.lose()
	runner := x.who(brokertest.Runner)
	_, err := x.Broker.Beat(t.Context(), runner, s.Task.ID)
	kindOf(t, err, broker.Unavailable)
	_, err = x.Broker.TaintTask(t.Context(), runner, s.Task.ID, []string{"web"})
	kindOf(t, err, broker.Unavailable)
	_, err = x.Broker.PauseTask(t.Context(), runner, s.Task.ID, "")
	kindOf(t, err, broker.Unavailable)
}

// H27: a proof and an assertion stay used when the process that knew is gone.
func TestAttackReplayAfterRestart(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	r := s.Request(t, "orders:eu/1:read")
	if _, err := x.Broker.Token(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	assertion := x.Assertion(t, brokertest.Operator, x.Keys[brokertest.Operator])
	if _, err := x.Broker.AuthenticateAssertion(t.Context(), assertion, ""); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	restarted := x.replica(t)
	_, err := restarted.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidProof)
	_, err = restarted.PrincipalToken(t.Context(), assertion, x.Prove(t, brokertest.NewKey(t)), "")
	kindOf(t, err, broker.Unauthenticated)
	if _, err := restarted.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a new proof: %v", err)
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 0 {
		t.Errorf("a proof from before the restart counts as a violation: %d (%v)", live.Violations, err)
	}
	if _, err := restarted.AuthenticateAssertion(t.Context(), x.Assertion(t, brokertest.Operator, x.Keys[brokertest.Operator]), ""); err != nil {
		t.Errorf("a new assertion: %v", err)
	}
}

// The outcome of opening a task is unknown, or its ticket cannot be issued:
// nobody knows the task, so it must not stay open.
func TestAttackTaskNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*target){
		"unknown outcome": func(x *target) { x.store.onDone(audit.TaskOpened, once(errDown)) },
		"no ledger":       func(x *target) { x.ledger.on("PutTask", once(errDown)) },
		"no ticket":       func(x *target) { x.ledger.on("Put", once(errDown)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{Run: true})
			fault(x)
			_, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
			kindOf(t, err, broker.Unavailable)
			eventually(t, "the task is closed", func() bool {
				ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{})
				return err == nil && len(ts) == 1 && ts[0].State == broker.TaskClosed
			})
		})
	}
}

// A ticket is spent, and then a store fails: the same sandbox may try again with
// it, and nobody else.
func TestAttackTicketLostToABlip(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]string{"before the sandbox is bound": audit.SandboxEnrolled, "after it": audit.SandboxToken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
			if err != nil {
				t.Fatal(err)
			}
			key := brokertest.NewKey(t)
			enrol := func(p broker.Possession) error {
				_, err := x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, p)
				return err
			}
			x.store.on(op, once(errDown))
			kindOf(t, enrol(x.Prove(t, key)), broker.Unavailable)
			if err := enrol(x.Prove(t, key)); err != nil {
				t.Fatalf("the sandbox is locked out of its task: %v", err)
			}
			kindOf(t, enrol(x.Prove(t, brokertest.NewKey(t))), broker.InvalidEvidence)
		})
	}
}

// A ticket that was put back does not live longer than it would have.
func TestAttackTicketDoesNotLiveOn(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(40 * time.Second)
	x.store.on(audit.SandboxEnrolled, once(errDown))
	for range 2 {
		_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, brokertest.NewKey(t)))
		x.Clock.Add(40 * time.Second)
	}
	kindOf(t, err, broker.InvalidEvidence)
}

// The journal knows the sandbox, the ledger missed it: the task must not be stuck.
func TestAttackSandboxUnknownToTheLedger(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	x.ledger.on("Touch", once(errDown))
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	s := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t), Task: task}
	for range 2 { // the second time with another ticket
		var en broker.Enrolment
		if en, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, s.Key)); err == nil {
			s.TaskToken = en.Token.Reveal()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Errorf("an approved request cannot be redeemed: %v", err)
	}
}

// The ledger is lost between the two halves of a taint.
func TestAttackLossBetweenTheHalvesOfATaint(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on(audit.TaskTainted, func() error {
		x.memory.lose()
		x.replica(t)
		return nil
	})
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || len(live.Taint) != 1 {
		t.Errorf("acknowledged and not in force: %v (%v)", live.Taint, err)
	}
}

// "Could not judge" is not "no": a journal that is down does not make evidence bad.
func TestAttackOutageCalledBadEvidence(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "sso", Selectors: map[string]string{"sub": "workload"}}
	task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	if err != nil {
		t.Fatal(err)
	}
	x.store.on("Tasks", func() error { return errDown })
	_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(issuer.Token(attesttest.Claims{"aud": brokertest.Issuer}))}, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Unavailable)
}

// The caller hangs up between the two halves of a pause or a taint.
func TestAttackHangUpHalfway(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *target, string) error{
		audit.TaskPaused: func(ctx context.Context, x *target, id string) error {
			_, err := x.Broker.PauseTask(ctx, x.who(brokertest.Operator), id, "look")
			return err
		},
		audit.TaskTainted: func(ctx context.Context, x *target, id string) error {
			_, err := x.Broker.TaintTask(ctx, x.who(brokertest.Operator), id, []string{"web"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			s := x.Open(t, brokertest.Spec())
			ctx, hangUp := context.WithCancel(t.Context())
			x.store.onDone(name, func() error { hangUp(); return nil })
			_ = do(ctx, x, s.Task.ID)
			live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
			if err != nil || live.State != broker.TaskPaused && len(live.Taint) != 1 {
				t.Errorf("on the record and not in force: state %s, taint %v (%v)", live.State, live.Taint, err)
			}
		})
	}
}

// A runner resumes while an operator pauses: the record and the ledger agree.
func TestAttackPauseRacingResume(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	other := x.replica(t)
	x.store.on(audit.TaskPaused, once(nil))
	var resumed sync.Once
	x.store.onDone(audit.TaskResumed, func() error { // the resume is on the record, and the pause overtakes it
		resumed.Do(func() {
			if _, err := other.PauseTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "suspicious"); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if _, err := x.Broker.PauseTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	_, _ = x.Broker.ResumeTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	task, err := x.Broker.Task(t.Context(), x.who(brokertest.Operator), s.Task.ID)
	if err != nil || task.State != broker.TaskPaused {
		t.Fatalf("%s %v", task.State, err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err == nil {
		t.Error("a task that is paused on the record mints")
	}
}

// ---- People ----

// The verdict "suspicious" is on the record and the process dies, or its outcome
// is not known: the task must end all the same.
func TestAttackSuspicionIsForgotten(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	suspect := func(b *broker.Broker, id string) error {
		_, err := b.Decide(t.Context(), x.who(brokertest.Approver), id, broker.Verdict{Code: broker.Suspicious})
		return err
	}
	closed := func(id string) bool {
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{id}})
		return err == nil && ts[0].State == broker.TaskClosed && ts[0].Cause == broker.CauseSuspicious
	}
	unsure := x.Open(t, brokertest.Spec())
	x.store.onDone("Vote", once(errDown))
	id := pending(t, unsure, "orders:eu/1:write").RequestID
	kindOf(t, suspect(x.Broker, id), broker.Unavailable)
	_ = suspect(x.Broker, id)
	if !closed(unsure.Task.ID) {
		t.Error("the verdict counted, its outcome was unknown, and asking again did not stop the task")
	}

	crashed := x.Open(t, brokertest.Spec())
	x.store.onDone("Vote", once(errDown))
	kindOf(t, suspect(x.Broker, pending(t, crashed, "orders:eu/1:write").RequestID), broker.Unavailable)
	x.janitor(t, x.replica(t))
	eventually(t, "a restart finds the verdict and stops the task", func() bool { return closed(crashed.Task.ID) })
}

// The agent takes its request back when it sees that somebody looks.
func TestAttackSuspicionIsDodged(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	p := pending(t, s, "orders:eu/1:write")
	r := s.Request(t, "orders:eu/1:read")
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	stranger := broker.Principal{ID: "eve", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}
	_, err := x.Broker.Decide(t.Context(), stranger, p.RequestID, broker.Verdict{Code: broker.Suspicious})
	kindOf(t, err, broker.Forbidden)
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.TooBroad})
	kindOf(t, err, broker.Conflict)
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.Suspicious}); err != nil {
		t.Fatal(err)
	}
	if x.Active(t, tok.Token.Reveal()) {
		t.Error("withdrawing the request saved the task")
	}
}

// I12: taking requests back must not buy new ones without end.
func TestAttackAskAndTakeBack(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	var err error
	n := 0
	for ; n < 40; n++ {
		if _, err = s.AskDeferred(t, "orders:eu/1:write"); broker.AsError(err).Kind != broker.Pending {
			break
		}
		r := s.Request(t, "orders:eu/1:read")
		if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, broker.AsError(err).Pending.DeferralCode.Reveal()); err != nil {
			t.Fatal(err)
		}
	}
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
		t.Error("no Retry-After")
	}
	if n < 3 {
		t.Errorf("refused after %d requests that were taken back", n)
	}
}

var askWhenTainted = map[string][]byte{"p.cedar": []byte(`
@id("clean") @ask("approvers")
permit (principal, action, resource) unless { context.taint.contains("web") };
@id("tainted") @ask("security") @quorum("2")
permit (principal, action, resource) when { context.taint.contains("web") };
`)}

// I7: what people said yes to before the task read hostile text does not stand in
// for the yes of others that policy wants now.
func TestAttackGrantForOtherPeople(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Policies: askWhenTainted})
	s := x.Open(t, brokertest.Spec())
	approved(t, x.Env, s, "orders:eu/1:write")
	if _, err := s.Ask(t, "orders:eu/1:write"); err != nil {
		t.Fatalf("the grant is not reused: %v", err)
	}
	waiting := pending(t, s, "orders:eu/2:write")
	approve(t, x.Env, brokertest.Approver, waiting.RequestID, broker.Verdict{})
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	_, err = s.Poll(t, waiting.DeferralCode.Reveal())
	kindOf(t, err, broker.Denied)
	_, err = s.AskDeferred(t, "orders:eu/2:write")
	kindOf(t, err, broker.Pending) // it may ask the right people
}

// A new policy between the yes and the poll.
func TestAttackPolicyTightenedBeforeThePoll(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	two, err := policy.Load(map[string][]byte{"p.cedar": []byte(`@id("two") @ask("approvers") @quorum("2") permit (principal, action, resource);`)})
	if err != nil {
		t.Fatal(err)
	}
	x.Config.Policy.Replace(two)
	if _, err = s.Poll(t, p.DeferralCode.Reveal()); err == nil {
		t.Error("one yes was enough where policy wants two")
	}
}

// The owner is written by hand; its letter case is not who somebody is.
func TestAttackSelfApprovalByLetterCase(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = strings.ToUpper(brokertest.Approver)
	p := pending(t, x.Open(t, spec), "orders:eu/1:write")
	r, err := x.Broker.Request(t.Context(), x.who(brokertest.Auditor), p.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest})
	kindOf(t, err, broker.Forbidden)
}

// ---- The record ----

// longest is the longest scope value that parses.
func longest(action string) string {
	out := make([]string, scopes.MaxScopes)
	for i := range out {
		head, tail := fmt.Sprintf("orders:eu/%02d/", i), ":"+action
		path := strings.Repeat(strings.Repeat("x", 62)+"/", 7)
		out[i] = head + path + strings.Repeat("y", scopes.MaxBytes-len(head)-len(path)-len(tail)) + tail
	}
	return strings.Join(out, " ")
}

// I11: a refusal of a very long request is a refusal on the record.
func TestAttackDenialTooLongToRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`@id("no") forbid (principal, action, resource);`)}})
	s := x.Open(t, brokertest.Spec())
	_, err := s.Ask(t, longest("read"))
	kindOf(t, err, broker.Denied)
	if n := len(entries(t, x, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TokenDenied})); n != 1 {
		t.Errorf("%d denials on the record, want 1", n)
	}
}

// A long request for people is answered for what it is.
func TestAttackRequestTooLongToRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	_, err := s.AskDeferred(t, longest("write"))
	if k := broker.AsError(err).Kind; k != broker.Pending && k != broker.InvalidScope {
		t.Errorf("%v", err)
	}
}

// A flood of garbage from nobody must not hide what a known sandbox does.
func TestAttackViolationsHiddenByAFlood(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	for range 300 {
		_, _ = x.Broker.AuthenticateAssertion(t.Context(), "x.y.z", "")
	}
	r := s.Request(t, "orders:eu/1:read")
	for range 4 {
		_, _ = x.Broker.Token(t.Context(), r)
	}
	if n := len(entries(t, x, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TokenReplayed})); n != 3 {
		t.Errorf("%d of 3 replays are on the record", n)
	}
	x.memory.lose()
	x.replica(t)
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 3 {
		t.Errorf("%d violations after the ledger was lost, want 3 (%v)", live.Violations, err)
	}
}

// ---- Clocks ----

// H60: a clock that is set back refuses for a while; it stains nobody.
func TestAttackClockSetBack(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.TTL = 7200
	s := x.Open(t, spec)
	for range 12 { // claims are made and forgotten
		minted(t, s, "orders:eu/1:read")
		x.Clock.Add(time.Minute)
	}
	x.Clock.Add(-10 * time.Minute)
	for range 5 {
		_, _ = s.Ask(t, "orders:eu/1:read")
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 0 {
		t.Errorf("honest requests left %d violations (%v)", live.Violations, err)
	}
	x.Clock.Add(11 * time.Minute)
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("after the clock is right again: %v", err)
	}
}

// A proof that is nearly too old is claimed a moment later: no replay.
func TestAttackProofAtTheEdge(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	r := s.Request(t, "orders:eu/1:read")
	r.Possession.Proof.Until = x.Clock.Now().Add(-time.Second) // it waited for two seconds in a queue
	_, err := x.Broker.Token(t.Context(), r)
	if err != nil {
		t.Errorf("first use: %v", err)
	}
	_, err = x.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidProof)
}

// Replicas' clocks differ by a little.
func TestAttackReplicaWithAnotherClock(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	behind := x.replica(t, func(c *broker.Config) { c.Now = func() time.Time { return x.Clock.Now().Add(-3 * time.Second) } })
	if !activeAt(t, x, behind, tok.Token.Reveal()) {
		t.Error("a token of a replica whose clock is three seconds ahead is inactive")
	}
	if _, err := behind.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a task of a replica whose clock is three seconds ahead does not mint: %v", err)
	}
}

// What ended need not be remembered for longer than a token can live.
func TestAttackEndsAreForgotten(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{MaxTTL: 5 * time.Minute}})
	spec := brokertest.Spec()
	spec.TTL = 60
	s := x.Open(t, spec)
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil {
		t.Fatal(err)
	}
	evs, _, err := x.Broker.Follow(t.Context(), x.who(brokertest.Server), "", 10, 0)
	if err != nil || len(evs) != 1 {
		t.Fatalf("%v %v", evs, err)
	}
	if left := evs[0].Until.Sub(x.Clock.Now()); left < 6*time.Minute || left > time.Hour {
		t.Errorf("the end is remembered for %v, a token lives for at most 5 minutes", left)
	}
}

// ---- Who is who ----

// sso is an issuer of people (or of workloads) and its attestor.
func sso(t *testing.T, at time.Time) (*attesttest.Issuer, *attesttest.Clock, map[string]attest.Attestor) {
	t.Helper()
	clock := attesttest.NewClock()
	clock.Set(at)
	i := attesttest.NewIssuer(t, clock)
	a, err := oidc.New(oidc.Config{Name: "sso", Issuer: i.URL, Audience: brokertest.Issuer, JWKS: i.JWKS(), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return i, clock, map[string]attest.Attestor{"sso": a}
}

func withPeople(t *testing.T, x *target, people ...broker.PrincipalConfig) {
	t.Helper()
	x.Broker = x.replica(t, func(c *broker.Config) {
		c.Principals = append(slices.Clone(c.Principals), people...)
		c.Ledger = hookLedger{x.memory, x.ledger}
	})
}

func person(id string, selectors map[string]string, roles ...broker.Role) broker.PrincipalConfig {
	return broker.PrincipalConfig{Principal: broker.Principal{ID: id, Roles: roles, Groups: []string{"approvers"}}, Match: &broker.Match{Attestor: "sso", Selectors: selectors}}
}

// An attestor that recognises people vouches for no sandbox, or whoever can read
// the evidence of a sandbox could log in with it, and the other way round.
func TestAttackPersonOrSandbox(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "sso", Selectors: map[string]string{"sub": "ann"}}
	task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec) // before it recognised anybody
	if err != nil {
		t.Fatal(err)
	}
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	_, _, err = x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	kindOf(t, err, broker.Invalid)
	token := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer})
	key := brokertest.NewKey(t)
	_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(token)}, x.Prove(t, key))
	kindOf(t, err, broker.InvalidEvidence)
	if _, err := x.Broker.PrincipalExchange(t.Context(), token, x.Prove(t, key)); err != nil {
		t.Fatal(err)
	}
}

// I4: a token for the API does not outlive the ID token it was given for, and the
// ID token serves one key.
func TestAttackPersonOutlivesTheirEvidence(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	id := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "exp": start.Add(90 * time.Second).Unix()})
	tok, err := x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	if tok.ExpiresIn > 90 {
		t.Errorf("it lives for %d s, its evidence for 90", tok.ExpiresIn)
	}
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	// One that says which key it is for serves that key alone.
	mine := x.Prove(t, brokertest.NewKey(t))
	id = issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "cnf": map[string]any{"jkt": mine.Key.JKT}})
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if _, err = x.Broker.PrincipalExchange(t.Context(), id, mine); err != nil {
		t.Error(err)
	}
}

// Evidence belongs to the first key that used it, also when the ledger that knew
// is gone: a stolen ID token, or the token of a workload, opens nothing new.
func TestAttackStolenEvidenceAfterRestart(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	boxes, err := oidc.New(oidc.Config{Name: "boxes", Issuer: issuer.URL, Audience: "https://boxes.test", JWKS: issuer.JWKS(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	attestors["boxes"] = boxes
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	id := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer})
	mine := brokertest.NewKey(t)
	if _, err := x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, mine)); err != nil {
		t.Fatal(err)
	}
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "boxes", Selectors: map[string]string{"sub": "workload"}}
	workload := issuer.Token(attesttest.Claims{"aud": "https://boxes.test"})
	enrol := func(key jose.Signer) error {
		task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(workload)}, x.Prove(t, key))
		return err
	}
	if err := enrol(mine); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if _, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, mine)); err != nil {
		t.Error(err)
	}
	if err := enrol(brokertest.NewKey(t)); err == nil {
		t.Error("a workload's token that another key had used enrolled a stranger")
	}
	if err := enrol(mine); err != nil {
		t.Error(err)
	}
}

// Task tokens and tickets are of sandboxes, and sandboxes are never principals.
func TestAttackSandboxAsPrincipal(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	cfg := x.Config
	cfg.Registerer = nil
	cfg.Principals = append(slices.Clone(cfg.Principals), broker.PrincipalConfig{
		Principal: broker.Principal{ID: "box", Roles: []broker.Role{broker.RoleOperator}},
		Match:     &broker.Match{Attestor: "enroll", Selectors: map[string]string{"sub": "x"}},
	})
	if _, err := broker.New(t.Context(), cfg); err == nil {
		t.Error("a principal that is recognised by a task token was accepted")
	}
}

// One ID token, two principals: that is nobody.
func TestAttackTwoPrincipalsOneToken(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("one", map[string]string{"sub": "ann"}, broker.RoleApprover), person("two", map[string]string{"sub": "ann"}, broker.RoleOperator))
	_, err := x.Broker.PrincipalExchange(t.Context(), issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer}), x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
}

// Whoever the issuer knows and ebb does not must not fill the ledger.
func TestAttackStrangersFillTheLedger(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	before := x.ledger.count("Admit")
	_, err := x.Broker.PrincipalExchange(t.Context(), issuer.Token(attesttest.Claims{"sub": "mallory", "aud": brokertest.Issuer}), x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if n := x.ledger.count("Admit") - before; n != 0 {
		t.Errorf("a stranger caused %d writes to the ledger", n)
	}
}

// ---- Floods ----

// A runner names another's owner and floods: the other runner's tasks go on.
func TestAttackStarvingAnotherRunnersOwner(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{OwnerPerMin: 20}})
	victim := x.Open(t, brokertest.Spec())
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner2), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	flood := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t)}
	en, err := x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, flood.Key))
	if err != nil {
		t.Fatal(err)
	}
	flood.Task, flood.TaskToken = en.Task, en.Token.Reveal()
	for range 25 {
		_, err = flood.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	if _, err := victim.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("another runner's task is starved: %v", err)
	}
}

// A sandbox that goes on beyond its rate is refused here: what it sends must not
// fill the memory that all tasks share.
func TestAttackFloodFillsTheLedger(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps.MintsPerMinute = 5
	s := x.Open(t, spec)
	var err error
	for range 10 {
		_, err = s.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	before := x.ledger.count("Admit")
	for range 30 {
		_, err = s.Ask(t, "orders:eu/1:read")
		if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
			t.Fatal("no Retry-After")
		}
	}
	if n := x.ledger.count("Admit") - before; n > 5 {
		t.Errorf("30 requests beyond the rate reached the ledger %d times", n)
	}
	x.Clock.Add(time.Minute)
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Error(err)
	}
}

// The same with client assertions, which are remembered for minutes.
func TestAttackFloodOfAssertions(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	client := s.Task.Sandbox.ID
	revoke := func(id string) error {
		return x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &broker.Subject{Assertion: x.Assertion(t, client, s.Key), ClientID: id, Fault: broker.Unauthenticated}}, "x")
	}
	kindOf(t, revoke("sbx_"+strings.Repeat("0", 32)), broker.Unauthenticated) // H23: another client_id
	var err error
	for range 1300 {
		if err = revoke(client); err != nil {
			break
		}
	}
	kindOf(t, err, broker.TooMany)
}

// A replica starts while another is ending a task for cause: it must not write its
// guess over who did it and why.
func TestAttackReplicaGuessesTheCause(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on("Append.move", func() error { // refused in the ledger, not yet on the record
		x.janitor(t, x.replica(t))
		time.Sleep(1200 * time.Millisecond) // a round of its janitor, by the machine's clock
		return nil
	})
	if _, err := x.Broker.StopTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "leak"); err != nil {
		t.Fatal(err)
	}
	task, err := x.Broker.Task(t.Context(), x.who(brokertest.Operator), s.Task.ID)
	if err != nil || task.Cause != broker.CauseStopped || task.ClosedBy != brokertest.Operator || task.Reason != "leak" {
		t.Errorf("closed by %s: %s %q (%v)", task.ClosedBy, task.Cause, task.Reason, err)
	}
	crashed := x.Open(t, brokertest.Spec())
	if _, _, err := x.memory.get().SetState(t.Context(), crashed.Task.ID, broker.TaskClosed, x.Clock.Now(), x.Clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	x.janitor(t, x.replica(t))
	x.Clock.Add(time.Minute)
	eventually(t, "an end that nobody finishes is finished", func() bool {
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{crashed.Task.ID}})
		return err == nil && ts[0].State == broker.TaskClosed
	})
}

// A request of less than what a person refused as such is the same question.
func TestAttackCoolDownBySplitting(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	both := scopes.MustParseSet("orders:eu/1:write orders:eu/2:write")
	p := pending(t, s, both.String())
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.NotNeeded}); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(both.Scopes(), scopes.MustParse("orders:eu/2:write")) {
		_, err := s.AskDeferred(t, part.String())
		kindOf(t, err, broker.Denied)
	}
	_, err := s.AskDeferred(t, "orders:eu/3:write")
	kindOf(t, err, broker.Pending)
}
