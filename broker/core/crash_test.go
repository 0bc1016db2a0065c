package core_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/memstore"
)

var errDown = errors.New("dial tcp 10.0.0.1:6379: connection refused")

// failing is a real LiveStore and a real database that stop answering when the test says so.
type failing struct {
	broker.LiveStore
	broker.Store
	broker.ApprovalStore
	liveStore, store atomic.Bool
	late             atomic.Bool // a unit is durable only when the caller waits for it
	afterAppend      func()
	afterPut         func(broker.LiveLease)
}

type failingLiveStore struct{ *failing }

func (f failingLiveStore) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if f.liveStore.Load() {
		return broker.Live{}, errDown
	}
	return f.LiveStore.Admit(ctx, a)
}

func (f failingLiveStore) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if f.liveStore.Load() {
		return errDown
	}
	return f.LiveStore.PutTask(ctx, t, keep)
}

func (f failingLiveStore) PutLease(ctx context.Context, l broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	if f.liveStore.Load() {
		return errDown
	}
	err := f.LiveStore.PutLease(ctx, l, limits, refill)
	if f.afterPut != nil {
		f.afterPut(l)
	}
	return err
}

func (f failingLiveStore) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if f.liveStore.Load() {
		return broker.Counts{}, false, errDown
	}
	return f.LiveStore.SetState(ctx, id, s, at, keep)
}

func (f failingLiveStore) Status(ctx context.Context, task, lease string, now time.Time) (bool, error) {
	if f.liveStore.Load() {
		return false, errDown
	}
	return f.LiveStore.Status(ctx, task, lease, now)
}

func (f failingLiveStore) Check(ctx context.Context) error { return f.LiveStore.Check(ctx) }
func (f failingLiveStore) Close() error                    { return nil }

// A value is taken from the LiveStore, a pending revocation from the database.
func (f failingLiveStore) Take(ctx context.Context, key string) (string, error) {
	return f.LiveStore.Take(ctx, key)
}

type failingStore struct{ *failing }

func (f failingStore) Append(ctx context.Context, r broker.Record) error {
	if f.store.Load() {
		return errDown
	}
	err := f.Store.Append(ctx, r)
	if f.afterAppend != nil && r.IssueLease != nil {
		f.afterAppend()
	}
	return err
}

// Begin is durable before the caller continues or, with late, after the caller has waited.
func (f failingStore) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	if f.late.Load() {
		return func() error { return f.Append(ctx, r) }
	}
	err := f.Append(ctx, r)
	return func() error { return err }
}

func (f failingStore) Tasks(ctx context.Context, q broker.TaskFilter) ([]broker.Task, error) {
	if f.store.Load() {
		return nil, errDown
	}
	return f.Store.Tasks(ctx, q)
}

func (f failingStore) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if f.store.Load() {
		return nil, errDown
	}
	return f.Store.Take(ctx, provider, now, hold, n)
}

func breakable(t *testing.T) (*brokertest.Env, *failing) {
	t.Helper()
	db := brokertest.OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), time.Now)
	f := &failing{LiveStore: memstore.New(memstore.Config{}), Store: db, ApprovalStore: db}
	e := brokertest.New(t, brokertest.Config{LiveStore: failingLiveStore{f}, Store: failingStore{f}, ApprovalStore: db, RealTime: true})
	return e, f
}

// I1, I6: a store that is down at any step of a mint gives 503 and no live credential.
//
//ebb:invariant I1 A credential whose lease could not be made durable in the database is not returned to the caller
//ebb:invariant I1 A credential whose lease the live store refuses is not returned to the caller
func TestStoreFailuresMintNothing(t *testing.T) {
	e, f := breakable(t)
	s := e.Open(t, brokertest.Spec())
	good, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]*atomic.Bool{"live_store": &f.liveStore, "database": &f.store} {
		broken.Store(true)
		_, err := s.Ask(t, "orders:eu/1:read")
		if e := kindOf(t, err, broker.Unavailable); e.RetryAfter <= 0 {
			t.Errorf("%s down: no Retry-After", name)
		}
		_, _, err = e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], brokertest.Spec())
		kindOf(t, err, broker.Unavailable)
		broken.Store(false)
	}
	f.liveStore.Store(true)
	_, err = e.Broker.Introspect(t.Context(), e.Principals[brokertest.Operator], good.Token.Reveal())
	kindOf(t, err, broker.Unavailable) // never active in doubt, and never a wrong "inactive"
	f.liveStore.Store(false)

	// The LiveStore fails between the durable record and the response.
	f.afterAppend = func() { f.liveStore.Store(true) }
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Unavailable)
	f.afterAppend = nil
	f.liveStore.Store(false)
	leases, err := e.Broker.Leases(t.Context(), e.Principals[brokertest.Auditor], broker.LeaseFilter{TaskID: s.Task.ID})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%d leases on the record (%v), want 2", len(leases), err)
	}
	if leases[1].State == broker.LeaseLive && leases[0].State == broker.LeaseLive {
		t.Error("a token that was never delivered is live on the record")
	}
}

// I1: if the record of a mint fails, for any reason, the lease in the LiveStore is removed, and
// frees its place in the task.
//
//ebb:invariant I1 A credential whose lease could not be made durable in the database is not returned to the caller
//ebb:invariant I1 A lease that the live store accepted is removed from the live store when its database write fails
func TestUnrecordedMintIsNotAlive(t *testing.T) {
	e, f := breakable(t)
	f.late.Store(true)
	spec := brokertest.Spec()
	spec.Caps.Leases = 1
	s := e.Open(t, spec)
	var put broker.LiveLease
	f.afterPut = func(l broker.LiveLease) {
		put = l
		f.store.Store(true)
	}
	_, err := s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Unavailable)
	f.store.Store(false)
	f.afterPut = nil
	if put.ID == "" {
		t.Fatal("the live store took no lease before the record")
	}
	if alive, err := f.LiveStore.Status(t.Context(), s.Task.ID, put.ID, time.Now()); err != nil || alive {
		t.Errorf("alive %v, %v: not on the record", alive, err)
	}
	if ls, err := f.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{put.ID}, Now: time.Now()}); err != nil || len(ls) != 0 {
		t.Errorf("%d leases on the record, %v", len(ls), err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("a mint that failed takes a place of the task: %v", err)
	}

	// The task is closed between the two.
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
	if alive, err := f.LiveStore.Status(t.Context(), s.Task.ID, put.ID, time.Now()); err != nil || alive {
		t.Errorf("alive %v, %v: its task is over", alive, err)
	}
}

// I6: a close works as far as possible, is not acknowledged before it took effect, and completes by
// itself.
//
//ebb:invariant I2 Every process checks its own revoked set before it asks the live store whether a task or lease is live
//ebb:invariant I6 Completing a task takes effect without the database
func TestEndingWorksWhileStoresAreDown(t *testing.T) {
	for name, broken := range map[string]func(*failing) *atomic.Bool{
		"live_store": func(f *failing) *atomic.Bool { return &f.liveStore },
		"database":   func(f *failing) *atomic.Bool { return &f.store },
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

// I2, H58: no credential survives a concurrent close.
//
//ebb:invariant I2
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

// A lost LiveStore is refilled from the database: live leases are live, and revoked ones stay
// revoked.
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
	cfg.LiveStore, cfg.Registerer = memstore.New(memstore.Config{Now: e.Clock.Now}), nil
	b, err := core.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.Broker, e.Config = b, cfg
	for i, want := range []bool{true, false, true, false} {
		if got := e.Active(t, tokens[i]); got != want {
			t.Errorf("token %d after the refill: active %v, want %v", i, got, want)
		}
	}
	record, err := cfg.LiveStore.Admit(t.Context(), broker.Admission{TaskID: noisy.Task.ID})
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

// Two replicas on one LiveStore and one database refuse together.
//
//ebb:invariant I2
func TestReplicasRefuseTogether(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	cfg := e.Config
	cfg.Registerer = nil
	other, err := core.New(t.Context(), cfg)
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
