package core_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
)

// marked is a broker with high-water marks beside its keys, and its database.
type marked struct {
	*brokertest.Env
	url  string
	dir  *keys.Dir
	stop func() // stops the broker, which writes a last mark
}

// databaseURLs returns a database of each kind.
var databaseURLs = map[string]func(testing.TB) string{"sqlite": sqlstoretest.SQLite, "postgres": sqlstoretest.Postgres}

func openMarked(t *testing.T, url string) *marked {
	t.Helper()
	m := &marked{url: url}
	path := filepath.Join(t.TempDir(), "keys")
	var err error
	if m.dir, err = keys.Open(keys.Config{Dir: path}); err != nil {
		t.Fatal(err)
	}
	store := m.store(t)
	m.Env = brokertest.New(t, brokertest.Config{RealTime: true, Keys: path, Store: store, ApprovalStore: store, Marks: map[string]broker.MarkStore{"keys": m.dir}})
	m.stop = running(t, m.Broker)
	return m
}

func (m *marked) store(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: m.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// running runs a broker until the returned function is called, or the test ends.
func running(t *testing.T, b *core.Broker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// again starts another process on the same database. Its LiveStore has lost nothing.
func (m *marked) again(t *testing.T, change func(*core.Config)) (*core.Broker, error) {
	t.Helper()
	cfg := m.Config
	s := m.store(t)
	cfg.Store, cfg.ApprovalStore, cfg.Registerer = s, s, nil
	if change != nil {
		change(&cfg)
	}
	return core.New(t.Context(), cfg)
}

// say changes the database without ebb.
func (m *marked) say(t *testing.T, text string) {
	t.Helper()
	sqlstoretest.Exec(t, m.url, text)
}

//ebb:invariant I11 ebb refuses to start with a database that lacks audit log entries which a high-water mark shows as durable
func TestLossIsNotServed(t *testing.T) {
	t.Parallel()
	for name, url := range databaseURLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMarked(t, url(t))
			m.Open(t, brokertest.Spec())
			m.stop()
			writer, last, _ := m.Config.Store.Durable()
			if b, err := m.again(t, nil); err != nil {
				t.Fatal("the whole database:", err)
			} else {
				running(t, b)()
			}

			m.say(t, "CREATE TABLE kept AS SELECT * FROM audit_entries")
			m.say(t, "DELETE FROM audit_entries WHERE writer <> '"+writer+"' OR seq > 2")
			_, err := m.again(t, nil)
			loss, is := errors.AsType[*durability.LossError](err)
			if !is || !errors.Is(err, broker.ErrMissing) {
				t.Fatalf("an older database: %v, want a LossError", err)
			}
			for _, e := range loss.Missing {
				if e.Writer == writer && (e.Seq != last.Seq || e.Has != 2 || e.Kept != "keys") {
					t.Errorf("missing: %+v, want seq %d and that the database has 2", e, last.Seq)
				}
			}
			_, err = m.again(t, func(c *core.Config) { c.KnownKeys = jose.KeySet{} })
			if err == nil || !strings.Contains(err.Error(), "not signed by a key of this ebb") {
				t.Errorf("marks of unknown keys: %v, want a refusal", err)
			}

			m.say(t, "DELETE FROM audit_entries")
			if _, err = m.again(t, nil); !errors.Is(err, broker.ErrMissing) {
				t.Errorf("an empty database: %v, want ErrMissing", err)
			}
			m.say(t, "INSERT INTO audit_entries SELECT * FROM kept")
			m.say(t, "UPDATE audit_entries SET hash = '"+strings.Repeat("0", 64)+"' WHERE kind = 'broker.stopped'")
			_, err = m.again(t, nil)
			if loss, is = errors.AsType[*durability.LossError](err); !is || loss.Missing[0].Why != "another entry has this seq" {
				t.Errorf("a forked chain: %v, want another entry in its place", err)
			}
		})
	}
}

// The database and the keys come from the same backup: the mark in Redis shows the loss.
//
//ebb:invariant I11 A loss of audit log entries is detected if any of the configured places has kept the high-water mark
func TestLossIsToldByAnyMark(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	other, err := keys.Open(keys.Config{Dir: filepath.Join(t.TempDir(), "elsewhere")})
	if err != nil {
		t.Fatal(err)
	}
	m.stop()
	marks, err := m.dir.Marks(t.Context())
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks: %v %v, want one", marks, err)
	}
	for writer, text := range marks {
		if err := errors.Join(other.PutMark(t.Context(), writer, text), m.dir.DropMark(t.Context(), writer)); err != nil {
			t.Fatal(err)
		}
	}
	m.say(t, "DELETE FROM audit_entries WHERE kind = 'broker.stopped'")
	if _, err := m.again(t, nil); err != nil {
		t.Error("without any mark, as after an upgrade:", err)
	}
	_, err = m.again(t, func(c *core.Config) { c.Marks = map[string]broker.MarkStore{"keys": m.dir, "elsewhere": other} })
	if loss, is := errors.AsType[*durability.LossError](err); !is || loss.Missing[0].Kept != "elsewhere" {
		t.Errorf("one of two places has a mark: %v, want a LossError by it", err)
	}
}

// Once the loss is accepted, with an audit entry, ebb serves again, but refuses all earlier
// credentials.
//
//ebb:invariant I11 After an operator accepts a loss of the database, ebb refuses all tasks and credentials from before the acceptance
func TestAcceptedLossRefusesWhatIsOlder(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	who := m.Principals[brokertest.Runner]
	s := m.Open(t, brokertest.Spec())
	token, err := m.Broker.PrincipalToken(t.Context(), m.Assertion(t, who.ID, m.Keys[who.ID]), m.Prove(t, m.Keys[who.ID]), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Fatal(err)
	}
	m.stop()
	m.say(t, "DELETE FROM audit_entries WHERE kind = 'broker.stopped'")

	store := m.store(t)
	missing, accepted, err := durability.FindMissing(t.Context(), store, m.Config.Marks, m.Config.KnownKeys)
	if err != nil || len(missing) == 0 || !accepted.IsZero() {
		t.Fatalf("missing: %v %v %v", missing, accepted, err)
	}
	if err := durability.AcceptLoss(t.Context(), store, missing, "root", "the disk died", time.Now()); err != nil {
		t.Fatal(err)
	}
	// A replica whose own mark is as old needs no second acceptance.
	b, err := m.again(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Env.Broker = b
	if _, err := s.Ask(t, "orders:eu/1:read"); err == nil {
		t.Error("a task of before got a credential")
	}
	if _, err := b.AuthenticateToken(t.Context(), token.Token.Reveal(), m.Prove(t, m.Keys[who.ID])); err == nil {
		t.Error("a token of before was accepted")
	}
	stop := running(t, b)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ts, err := m.Config.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}})
		if err == nil && len(ts) == 1 && ts[0].State == broker.TaskClosed {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a task of before stays open")
		}
	}
	if _, err := m.Open(t, brokertest.Spec()).Ask(t, "orders:eu/1:read"); err != nil {
		t.Error("a task of afterwards:", err)
	}
	stop()
	// The acceptance covers the entries that were missing then, and no later ones.
	m.say(t, "DELETE FROM audit_entries WHERE kind = 'broker.stopped'")
	if _, err := m.again(t, nil); !errors.Is(err, broker.ErrMissing) {
		t.Errorf("a second loss: %v, want ErrMissing", err)
	}
}

// A running replica whose database is restored from a backup stops serving.
//
//ebb:invariant I11 A running replica stops serving when the database lacks audit log entries that the replica has signed
func TestLossWhileRunning(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	m.Open(t, brokertest.Spec())
	if err := m.Broker.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.say(t, "DELETE FROM audit_entries WHERE seq > 1")
	if err := m.Broker.Checkpoint(t.Context()); !errors.Is(err, broker.ErrMissing) {
		t.Fatalf("checkpoint: %v, want ErrMissing", err)
	}
	for _, d := range m.Broker.Ready(t.Context()) {
		if down := d.Name == "live_store" || d.Name == "database"; down && d.Err == nil {
			t.Errorf("%s is ready", d.Name)
		}
	}
	if _, _, err := m.Broker.OpenTask(t.Context(), m.Principals[brokertest.Runner], brokertest.Spec()); err == nil || broker.AsError(err).Kind != broker.Unavailable {
		t.Errorf("open a task: %v, want 503", err)
	}
}

// A location that accepts no mark, such as a full disk, causes only a warning.
//
//ebb:invariant I11 A high-water mark that cannot be written causes a warning, and blocks no mint
func TestMarkThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	m.stop()
	b, err := m.again(t, func(c *core.Config) { c.Marks = map[string]broker.MarkStore{"full": noRoom{m.dir}} })
	if err != nil {
		t.Fatal(err)
	}
	m.Env.Broker = b
	running(t, b)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		warned := false
		for _, d := range b.Ready(t.Context()) {
			warned = warned || d.Name == "high_water_mark" && d.Warning != "" && d.Err == nil
		}
		if warned {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing warns")
		}
	}
	if _, err := m.Open(t, brokertest.Spec()).Ask(t, "orders:eu/1:read"); err != nil {
		t.Error("a mint while no mark can be written:", err)
	}
}

// noRoom accepts no mark.
type noRoom struct{ broker.MarkStore }

func (noRoom) PutMark(context.Context, string, []byte) error {
	return errors.New("no space left on device")
}

// The mark lags behind the database; it never names an entry that is not committed.
func TestMarkNeverLeads(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	s := m.Open(t, brokertest.Spec())
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 4 {
		wg.Go(func() {
			for range 20 {
				_, _ = s.Ask(t, "orders:eu/1:read")
			}
		})
	}
	for range 50 {
		marks, err := m.dir.Marks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heads, err := m.Config.Store.Heads(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range marks {
			var c audit.Checkpoint
			if err := c.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			for _, h := range heads {
				if c.Heads[h.Writer].Seq > h.Seq {
					t.Fatalf("the mark names seq %d, the database has %d", c.Heads[h.Writer].Seq, h.Seq)
				}
			}
		}
	}
}

// A checkpoint at start names only the chains that no recent checkpoint names. Otherwise each process
// run on one database would make it longer.
//
//ebb:invariant I12 A checkpoint names at most 1,000 chains; at start it omits a chain if one of the newest 512 checkpoints names the chain's last entry and is signed by the current key
func TestCheckpointsOfManyRuns(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	m.stop()
	run := func() {
		b, err := m.again(t, nil)
		if err != nil {
			t.Fatal(err)
		}
		running(t, b)()
	}
	for range 12 {
		run()
	}
	made, err := m.Config.Store.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const unnamed = 3 // chains of the last runs that no checkpoint names yet, at most
	named := map[string]bool{}
	for _, c := range made {
		for writer := range c.Heads {
			named[writer] = true
		}
		if len(c.Heads) > unnamed {
			t.Errorf("a checkpoint names %d chains", len(c.Heads))
		}
	}
	heads, err := m.Config.Store.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		if !named[h.Writer] {
			t.Errorf("no checkpoint names chain %s", h.Writer)
		}
	}
	// More than 1,000 chains are signed in several checkpoints.
	m.say(t, "INSERT INTO audit_writers (writer, started_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100) SELECT 'chain-' || i, 1 FROM n")
	m.say(t, "INSERT INTO audit_entries (writer, seq, at, kind, actor, task_id, lease_id, request_id, data, prev, hash) SELECT writer, 1, 1, 'broker.started', 'ebb', '', '', '', '', '', printf('%064d', substr(writer, 7)) FROM audit_writers WHERE writer LIKE 'chain-%'")
	before := made
	run()
	if made, err = m.Config.Store.Checkpoints(t.Context()); err != nil {
		t.Fatal(err)
	}
	clear(named)
	most := 0
	for _, c := range made {
		if slices.ContainsFunc(before, func(o audit.Checkpoint) bool { return o.JWS == c.JWS }) {
			continue
		}
		most = max(most, len(c.Heads))
		for writer := range c.Heads {
			named[writer] = true
		}
	}
	if len(named) < 1100 || len(named) > 1100+unnamed || most != 1000 {
		t.Errorf("the last run signed %d chains, at most %d in one checkpoint", len(named), most)
	}
}

// A forged or unreadable checkpoint leaves no chain unsigned, wherever its time places it in the order.
//
//ebb:invariant I11 A forged or unreadable checkpoint does not prevent ebb from signing any chain
func TestForgedCheckpoints(t *testing.T) {
	t.Parallel()
	const head = `{"hidden":{"seq":1,"hash":"` + hiddenHash + `"}}`
	for name, row := range map[string]string{
		"newest":                          "SELECT 'forged', max(at) + 1, '" + head + "', substr(jws, 1, instr(jws, '.')) || 'e30.AA' FROM checkpoints",
		"not newest":                      "SELECT 'forged', max(at) - 1, '" + head + "', substr(jws, 1, instr(jws, '.')) || 'e30.AA' FROM checkpoints",
		"signature of another checkpoint": "SELECT 'forged', max(at) - 1, '" + head + "', jws FROM checkpoints",
		"heads not JSON":                  "SELECT 'forged', max(at) + 1, 'heads', jws FROM checkpoints",
		"heads null":                      "SELECT 'forged', max(at) + 1, 'null', 'forged' FROM checkpoints",
		"heads empty":                     "SELECT 'forged', max(at) + 1, '{}', 'forged' FROM checkpoints",
		"time too late":                   "SELECT 'forged', 9000000000000000000, heads, jws FROM checkpoints",
		"time is text":                    "SELECT 'forged', 'x', heads, jws FROM checkpoints",
		"time is a fraction":              "SELECT 'forged', max(at) + 0.5, heads, jws FROM checkpoints",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMarked(t, sqlstoretest.SQLite(t))
			m.stop()
			m.say(t, "INSERT INTO audit_writers (writer, started_at) VALUES ('hidden', 1)")
			m.say(t, "INSERT INTO audit_entries (writer, seq, at, kind, actor, task_id, lease_id, request_id, data, prev, hash) VALUES ('hidden', 1, 1, 'broker.started', 'ebb', '', '', '', '', '', '"+hiddenHash+"')")
			m.say(t, "INSERT INTO checkpoints (digest, at, heads, jws) "+row+" LIMIT 1") // the first run made one or two
			b, err := m.again(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			running(t, b)()
			m.say(t, "DELETE FROM checkpoints WHERE digest = 'forged'")
			made, err := m.Config.Store.Checkpoints(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(made, func(c audit.Checkpoint) bool {
				return c.Heads["hidden"].Seq == 1 && c.Verify(m.Config.KnownKeys) == nil
			}) {
				t.Error("no checkpoint names the chain that the forged one names")
			}
		})
	}
}

// A new key signs all chains, because the previous key may be lost or may have leaked.
//
//ebb:invariant I11 The first checkpoints by a key name every chain, also those that an earlier key has signed
func TestCheckpointsByAnotherKey(t *testing.T) {
	t.Parallel()
	m := openMarked(t, sqlstoretest.SQLite(t))
	m.stop()
	heads, err := m.Config.Store.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, err := keys.Open(keys.Config{Dir: filepath.Join(t.TempDir(), "next")})
	if err != nil {
		t.Fatal(err)
	}
	public, err := next.Public()
	if err != nil {
		t.Fatal(err)
	}
	known, err := jose.NewKeySet(public...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.again(t, func(c *core.Config) { c.Keys, c.Marks = next.Ring(), nil })
	if err != nil {
		t.Fatal(err)
	}
	running(t, b)()
	made, err := m.Config.Store.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		if !slices.ContainsFunc(made, func(c audit.Checkpoint) bool { return c.Heads[h.Writer].Hash == h.Hash && c.Verify(known) == nil }) {
			t.Errorf("no checkpoint by the new key names chain %s", h.Writer)
		}
	}
}

const hiddenHash = "00000000000000000000000000000000000000000000000000000000000000aa"
