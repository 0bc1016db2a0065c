package broker_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/memstore"
)

var errDown = errors.New("dial tcp 10.0.0.1:6379: connection refused")

// failing is a real ledger and a real journal that stop answering when told to.
type failing struct {
	broker.Ledger
	broker.Journal
	broker.Desk
	ledger, journal atomic.Bool
	late            atomic.Bool // a unit is durable only when somebody waits for it
	afterAppend     func()
	afterPut        func(broker.LiveLease)
}

type failingLedger struct{ *failing }

func (f failingLedger) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if f.ledger.Load() {
		return broker.Live{}, errDown
	}
	return f.Ledger.Admit(ctx, a)
}

func (f failingLedger) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if f.ledger.Load() {
		return errDown
	}
	return f.Ledger.PutTask(ctx, t, keep)
}

func (f failingLedger) PutLease(ctx context.Context, l broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	if f.ledger.Load() {
		return errDown
	}
	err := f.Ledger.PutLease(ctx, l, limits, refill)
	if f.afterPut != nil {
		f.afterPut(l)
	}
	return err
}

func (f failingLedger) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if f.ledger.Load() {
		return broker.Counts{}, false, errDown
	}
	return f.Ledger.SetState(ctx, id, s, at, keep)
}

func (f failingLedger) Status(ctx context.Context, task, lease string, now time.Time) (bool, error) {
	if f.ledger.Load() {
		return false, errDown
	}
	return f.Ledger.Status(ctx, task, lease, now)
}

func (f failingLedger) Check(ctx context.Context) error { return f.Ledger.Check(ctx) }
func (f failingLedger) Close() error                    { return nil }

// A value is taken from the ledger, what is owed from the journal.
func (f failingLedger) Take(ctx context.Context, key string) (string, error) {
	return f.Ledger.Take(ctx, key)
}

type failingJournal struct{ *failing }

func (f failingJournal) Append(ctx context.Context, r broker.Record) error {
	if f.journal.Load() {
		return errDown
	}
	err := f.Journal.Append(ctx, r)
	if f.afterAppend != nil && r.IssueLease != nil {
		f.afterAppend()
	}
	return err
}

// Begin is durable before anything else happens, or, late, after all else.
func (f failingJournal) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	if f.late.Load() {
		return func() error { return f.Append(ctx, r) }
	}
	err := f.Append(ctx, r)
	return func() error { return err }
}

func (f failingJournal) Tasks(ctx context.Context, q broker.TaskFilter) ([]broker.Task, error) {
	if f.journal.Load() {
		return nil, errDown
	}
	return f.Journal.Tasks(ctx, q)
}

func (f failingJournal) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if f.journal.Load() {
		return nil, errDown
	}
	return f.Journal.Take(ctx, provider, now, hold, n)
}

func breakable(t *testing.T) (*brokertest.Env, *failing) {
	t.Helper()
	db := brokertest.OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), time.Now)
	f := &failing{Ledger: memstore.New(memstore.Config{}), Journal: db, Desk: db}
	e := brokertest.New(t, brokertest.Config{Ledger: failingLedger{f}, Journal: failingJournal{f}, Desk: db, RealTime: true})
	return e, f
}

// I1, I6: a store that is down at any step of a mint means 503 and nothing alive.
func TestStoreFailuresMintNothing(t *testing.T) {
	e, f := breakable(t)
	s := e.Open(t, brokertest.Spec())
	good, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]*atomic.Bool{"ledger": &f.ledger, "journal": &f.journal} {
		broken.Store(true)
		_, err := s.Ask(t, "orders:eu/1:read")
		if e := kindOf(t, err, broker.Unavailable); e.RetryAfter <= 0 {
			t.Errorf("%s down: no Retry-After", name)
		}
		_, _, err = e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], brokertest.Spec())
		kindOf(t, err, broker.Unavailable)
		broken.Store(false)
	}
	f.ledger.Store(true)
	_, err = e.Broker.Introspect(t.Context(), e.Principals[brokertest.Operator], good.Token.Reveal())
	kindOf(t, err, broker.Unavailable) // never active on doubt, and never a false no
	f.ledger.Store(false)

	// The ledger fails between the durable record and the answer.
	f.afterAppend = func() { f.ledger.Store(true) }
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Unavailable)
	f.afterAppend = nil
	f.ledger.Store(false)
	leases, err := e.Broker.Leases(t.Context(), e.Principals[brokertest.Auditor], broker.LeaseFilter{TaskID: s.Task.ID})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%d leases on the record (%v), want 2", len(leases), err)
	}
	if leases[1].State == broker.LeaseLive && leases[0].State == broker.LeaseLive {
		t.Error("a token that was never delivered is live on the record")
	}
}

// I1: what the ledger knows before the record does is dead when the record fails,
// whatever the reason, and holds no place of its task.
func TestUnrecordedMintIsNotAlive(t *testing.T) {
	e, f := breakable(t)
	f.late.Store(true)
	spec := brokertest.Spec()
	spec.Caps.Leases = 1
	s := e.Open(t, spec)
	var put broker.LiveLease
	f.afterPut = func(l broker.LiveLease) {
		put = l
		f.journal.Store(true)
	}
	_, err := s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Unavailable)
	f.journal.Store(false)
	f.afterPut = nil
	if put.ID == "" {
		t.Fatal("the ledger took no lease before the record")
	}
	if alive, err := f.Ledger.Status(t.Context(), s.Task.ID, put.ID, time.Now()); err != nil || alive {
		t.Errorf("alive %v, %v: not on the record", alive, err)
	}
	if ls, err := f.Journal.Leases(t.Context(), broker.LeaseFilter{IDs: []string{put.ID}, Now: time.Now()}); err != nil || len(ls) != 0 {
		t.Errorf("%d leases on the record, %v", len(ls), err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("what was not issued takes a place of the task: %v", err)
	}

	// The task ends between the two.
	s = e.Open(t, brokertest.Spec())
	f.afterPut = func(l broker.LiveLease) {
		put = l
		f.afterPut = nil
		if _, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.InvalidGrant)
	if alive, err := f.Ledger.Status(t.Context(), s.Task.ID, put.ID, time.Now()); err != nil || alive {
		t.Errorf("alive %v, %v: its task is over", alive, err)
	}
}

// I6: ending works as far as it can, is not acknowledged before it is true, and
// finishes by itself.
func TestEndingWorksWhileStoresAreDown(t *testing.T) {
	for name, broken := range map[string]func(*failing) *atomic.Bool{
		"ledger":  func(f *failing) *atomic.Bool { return &f.ledger },
		"journal": func(f *failing) *atomic.Bool { return &f.journal },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, f := breakable(t)
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = e.Broker.Run(ctx) })
			defer func() { stop(); wg.Wait() }()
			s := e.Open(t, brokertest.Spec())
			tok, err := s.Ask(t, "orders:eu/1:read")
			if err != nil {
				t.Fatal(err)
			}
			broken(f).Store(true)
			_, err = e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait)
			kindOf(t, err, broker.Unavailable)
			if i, err := e.Broker.Introspect(t.Context(), e.Principals[brokertest.Operator], tok.Token.Reveal()); err != nil || i.Active {
				t.Errorf("after an unconfirmed end: active %v, %v", i.Active, err)
			}
			broken(f).Store(false)
			waitClosed(t, e, s.Task.ID, broker.CauseCompleted)
			if e.Active(t, tok.Token.Reveal()) {
				t.Error("active after the end")
			}
			_, err = s.Ask(t, "orders:eu/1:read")
			kindOf(t, err, broker.Invalid)
		})
	}
}

// I2, H58: whatever races with the end, nothing survives it.
func TestMintRacingCompleteLeavesNoSurvivor(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{RealTime: true})
	for range 20 {
		s := e.Open(t, brokertest.Spec())
		var requests []broker.TokenRequest
		for range 16 {
			requests = append(requests, s.Request(t, "orders:eu/1:read"))
		}
		var mu sync.Mutex
		var minted []broker.Token
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, r := range requests {
			wg.Go(func() {
				<-start
				if i == 8 {
					if _, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait); err != nil {
						t.Error(err)
					}
				}
				if tok, err := e.Broker.Token(t.Context(), r); err == nil {
					mu.Lock()
					defer mu.Unlock()
					minted = append(minted, tok)
				}
			})
		}
		close(start)
		wg.Wait()
		for _, tok := range minted {
			if e.Active(t, tok.Token.Reveal()) {
				t.Fatal("a token survived the end of its task")
			}
		}
	}
}

// A lost ledger is refilled from the journal: what was alive is alive, what was
// dead stays dead.
func TestRefillAfterLoss(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	live, ended, paused, noisy := e.Open(t, brokertest.Spec()), e.Open(t, brokertest.Spec()), e.Open(t, brokertest.Spec()), e.Open(t, brokertest.Spec())
	var tokens []string
	for _, s := range []*brokertest.Sandbox{live, ended, paused, live} {
		tok, err := s.Ask(t, "orders:eu/1:read")
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, tok.Token.Reveal())
	}
	op := e.Principals[brokertest.Operator]
	if err := e.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: &op}, tokens[3]); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.CompleteTask(t.Context(), op, ended.Task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PauseTask(t.Context(), op, paused.Task.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.TaintTask(t.Context(), op, noisy.Task.ID, []string{"public-issue-comments"}); err != nil {
		t.Fatal(err)
	}
	r := noisy.Request(t, "orders:eu/1:read orders:us/1:read") // beyond the ceiling: a denial
	for range 2 {                                              // and a replay
		_, _ = e.Broker.Token(t.Context(), r)
	}
	cfg := e.Config
	cfg.Ledger, cfg.Registerer = memstore.New(memstore.Config{Now: e.Clock.Now}), nil
	b, err := broker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.Broker = b
	for i, want := range []bool{true, false, true, false} {
		if got := e.Active(t, tokens[i]); got != want {
			t.Errorf("token %d after the refill: active %v, want %v", i, got, want)
		}
	}
	record, err := cfg.Ledger.Admit(t.Context(), broker.Admission{TaskID: noisy.Task.ID})
	if err != nil || record.Denials != 1 || record.Violations != 1 || !slices.Equal(record.Taint, []string{"public-issue-comments"}) {
		t.Errorf("record after the refill: %d denials, %d violations, taint %v (%v)", record.Denials, record.Violations, record.Taint, err)
	}
	if _, err := live.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("an open task mints no more: %v", err)
	}
	_, err = ended.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Invalid)
	_, err = paused.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
}

// Two replicas on one ledger and one journal refuse together.
func TestReplicasRefuseTogether(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	cfg := e.Config
	cfg.Registerer = nil
	other, err := broker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := e.Open(t, brokertest.Spec())
	r := s.Request(t, "orders:eu/1:read")
	tok, err := e.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Token(t.Context(), r) // assertion 43: the replica knows the proof
	kindOf(t, err, broker.InvalidProof)
	if _, err := other.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	if e.Active(t, tok.Token.Reveal()) {
		t.Error("one replica ended the task, the other accepts its token")
	}
}
