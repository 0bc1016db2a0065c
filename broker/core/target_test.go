package core_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// target is a broker whose stores can be attacked.
type target struct {
	*brokertest.Env
	liveStore, store *hooks
	memory           *memory
	db               *sqlstore.Store
	dir              string // of the database
}

func attacked(t *testing.T, c brokertest.Config) *target {
	t.Helper()
	x := &target{liveStore: &hooks{}, store: &hooks{}, dir: t.TempDir()}
	// The stores use the clock of the environment, which is set later.
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
	c.LiveStore, c.Store, c.ApprovalStore = hookLiveStore{x.memory, x.liveStore}, hookStore{x.db, x.store}, hookStore{x.db, x.store}
	x.Env = brokertest.New(t, c)
	clock.Store(x.Clock)
	return x
}

// replica returns another broker on the same stores, without hooks.
func (x *target) replica(t *testing.T, change ...func(*core.Config)) *core.Broker {
	t.Helper()
	cfg := x.Config
	cfg.Registerer = nil
	cfg.LiveStore, cfg.Store, cfg.ApprovalStore = hookLiveStore{x.memory, &hooks{}}, x.db, x.db
	for _, f := range change {
		f(&cfg)
	}
	b, err := core.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (x *target) janitor(t *testing.T, b *core.Broker) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
}

func (x *target) who(id string) broker.Principal { return x.Principals[id] }

func activeAt(t *testing.T, x *target, b *core.Broker, token string) bool {
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

// patience is how long a test waits for an expected state: only a failing test waits that long.
const patience = 2 * time.Minute

// hangs is how long a driver waits for a provider that does not answer. An answer takes less, also
// on a busy machine.
const hangs = 5 * time.Second

// eventually waits for the janitor, which works each second of real time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(40 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
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
