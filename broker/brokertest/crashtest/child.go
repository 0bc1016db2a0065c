package crashtest

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/scopes"
)

// variable tells a test binary that it is a child, with its order.
const variable = "EBB_TEST_CRASH_CHILD"

// order is the task of a child.
type order struct {
	Dir     string // for the keys, and for the files of the child
	Store   string // URL
	Issuer  string
	Scope   string
	Redis   []string // nil = memory
	Prefix  string
	Driver  json.RawMessage
	Revoke  bool // revoke only the credential, and count from there on
	Recover bool // finish the work of an earlier child
	Kill    int  // at which step; 0 = none
	After   bool // kill after the step
	Ahead   time.Duration
	Fast    int // seconds of the child's clock for each real one
}

// Names of the files that a child writes to its directory.
const (
	stepsFile  = "steps"  // the steps of this run, one on a line
	handedFile = "handed" // lease ids of the issued credentials, one on a line
)

// Child carries out the order for this process; without one it does nothing. The test
// that calls it is named TestCrashChild. driver makes the driver from the party's Driver,
// a C.
func Child[C any](t *testing.T, driver func(t *testing.T, config C) provider.Driver) {
	t.Helper()
	raw := os.Getenv(variable)
	if raw == "" {
		return
	}
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	var config C
	if err := json.Unmarshal(o.Driver, &config); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(o.Dir, stepsFile)) //nolint:gosec // the parent's directory
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{log: log, kill: o.Kill, after: o.After}
	e := &child{order: o, counter: c}
	if o.Recover {
		c.arm()
	}
	e.open(t, counting(driver(t, config), c))
	if o.Recover {
		e.recover(t)
	} else {
		e.work(t)
	}
}

type child struct {
	order
	*counter
	env   *brokertest.Env
	clock *brokertest.Clock
	db    *sqlstore.Store
	name  string // of the provider
}

// open starts the broker on the data of an earlier one.
func (e *child) open(t *testing.T, d provider.Driver) {
	t.Helper()
	e.clock = brokertest.RealClock(e.Ahead)
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: e.Store, Now: e.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e.db = db
	w, err := file.New(file.Config{Path: filepath.Join(e.Dir, "sealing.pem")})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := seal.New(t.Context(), seal.Config{Wrapper: w, Store: e.db, Now: e.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	var l broker.LiveStore = memstore.New(memstore.Config{Now: e.clock.Now})
	if len(e.Redis) > 0 {
		r, err := redisstore.New(t.Context(), redisstore.Config{Addrs: e.Redis, Prefix: e.Prefix, Now: e.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		l = r
	}
	e.name = scopes.MustParseSet(e.Scope).Providers()[0]
	limits := broker.Limits{Sweep: 24 * time.Hour}
	if e.Recover {
		limits.Sweep = 2 * time.Second // also how long a list may give no answer
	}
	e.env = brokertest.New(t, brokertest.Config{
		LiveStore: liveStore{l, e.counter}, Store: store{e.db, e.counter}, ApprovalStore: e.db, Sealer: sealer, Keys: filepath.Join(e.Dir, "keys"),
		Providers: map[string]broker.Provider{e.name: {Driver: d, Kind: "test", Resource: "https://party.test/"}},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Issuer:    e.Issuer, Limits: limits, Clock: e.clock, Run: true,
	})
}

// hurry makes the child's clock run faster from now on, for slow providers. A mint still
// gets its full time.
func (e *child) hurry(t *testing.T) {
	t.Helper()
	if e.Fast <= 1 {
		return
	}
	const tick = 50 * time.Millisecond
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				e.clock.Add(tick * time.Duration(e.Fast-1))
			}
		}
	}()
}

// work mints, and then completes the task or revokes the credential.
func (e *child) work(t *testing.T) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet(e.name + ":**:*")
	s := e.env.Open(t, spec)
	if !e.Revoke {
		e.arm()
	}
	tok, err := s.Ask(t, e.Scope)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.Dir, handedFile), []byte(tok.LeaseID+"\n"), 0o600); err != nil { // it was issued
		t.Fatal(err)
	}
	e.hurry(t)
	if e.Revoke {
		e.arm()
		if _, err := e.env.Broker.RevokeLease(t.Context(), e.env.Principals[brokertest.Runner], tok.LeaseID, ""); err != nil {
			t.Fatal(err)
		}
		e.await(t, "the credential is dead", func() bool { return e.settled(t) })
		return
	}
	done, err := e.env.Broker.CompleteTask(t.Context(), e.env.Principals[brokertest.Runner], s.Task.ID, revocation.MaxWait)
	if err != nil || done.PendingRevocations != 0 {
		t.Fatalf("%d pending revocations, %v", done.PendingRevocations, err)
	}
}

// recover completes open tasks, as a runner would, and waits until no revocation is
// pending and the provider was searched.
func (e *child) recover(t *testing.T) {
	t.Helper()
	e.hurry(t)
	open, err := e.db.Tasks(t.Context(), broker.TaskFilter{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range open {
		if _, err := e.env.Broker.CompleteTask(t.Context(), e.env.Principals[brokertest.Operator], task.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	e.await(t, "no revocation is pending", func() bool { return e.settled(t) })
	if _, lists := e.env.Config.Providers[e.name].Driver.(provider.Lister); lists {
		before := e.searches(t)
		e.await(t, "the provider was searched for orphans", func() bool { return e.searches(t) >= before+2 })
	}
}

func (e *child) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(childTime / 2); !is(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (e *child) settled(t *testing.T) bool {
	t.Helper()
	for _, s := range []broker.LeaseState{broker.LeaseIntent, broker.LeaseLive, broker.LeaseRevoking} {
		ls, err := e.db.Leases(t.Context(), broker.LeaseFilter{State: s, Now: e.clock.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if len(ls) > 0 {
			return false
		}
	}
	return true
}

// searches counts the searches that went through the whole list.
func (e *child) searches(t *testing.T) float64 {
	t.Helper()
	all, err := e.env.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "ebb_sweeps_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "done" {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
