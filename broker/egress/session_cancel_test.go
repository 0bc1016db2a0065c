package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress"
)

// cancel sends a cancel request in a tunnel from the sandbox to a host, and returns the response.
func (x *sandbox) cancel(t *testing.T, host string, pid uint32, secret []byte) string {
	t.Helper()
	c, in := x.tunnel(t, host)
	if _, err := c.Write(append(append([]byte{0, 0, 0, 0x10, 0x04, 0xd2, 0x16, 0x2e}, be32(pid)...), secret...)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 512)
	n, _ := in.Read(answer)
	return string(answer[:n])
}

// sleeps starts pg_sleep in a session, and returns when it is running.
func (d *dbBed) sleeps(t *testing.T, conn *pgx.Conn) (over chan error) {
	t.Helper()
	over = make(chan error, 1)
	go func() { _, err := conn.Exec(context.Background(), "SELECT pg_sleep(600)"); over <- err }()
	until(t, "it sleeps", func() bool { return d.sleeping(t) == 1 })
	return over
}

// sleeping returns the number of sessions of the database that sleep.
func (d *dbBed) sleeping(t *testing.T) (n int) {
	t.Helper()
	if err := d.query(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// E122: a sandbox can cancel only queries of its own sessions, even if it knows the key of another,
// and only under the host name of the session.
//
//ebb:invariant I2 A sandbox can cancel only queries of its own database sessions
func TestSessionCancel(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x, other := d.dbBox(t), d.dbBox(t)
	conn, _ := x.session(t, d)
	over := d.sleeps(t, conn)
	pid, secret := conn.PgConn().PID(), conn.PgConn().SecretKey()
	guess := append([]byte(nil), secret...)
	guess[0]++
	came := d.front.came.Load()
	for what, got := range map[string]string{
		"another box's": other.cancel(t, d.host, pid, secret), "a guess": x.cancel(t, d.host, pid, guess), "at another host": x.cancel(t, d.bed.host, pid, secret),
	} {
		if !strings.Contains(got, "C28P01") {
			t.Errorf("%s: %q", what, got)
		}
	}
	if n := d.front.came.Load() - came; n != 0 || d.sleeping(t) != 1 {
		t.Errorf("%d connections for nothing, %d sleep", n, d.sleeping(t))
	}
	if got := x.cancel(t, d.host, pid, secret); got != "" {
		t.Fatalf("its own: %q", got)
	}
	if err := <-over; stateOf(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// fills is an audit log that accepts no entry from a given time on.
type fills struct {
	egress.Record
	full *atomic.Bool
}

// UseAllowed implements egress.Record.
func (f fills) UseAllowed(ctx context.Context, c broker.Caller, u broker.Usable, x broker.Exchange) error {
	if f.full.Load() {
		return errors.New("the disk is full")
	}
	return f.Record.UseAllowed(ctx, c, u, x)
}

// E111: a cancellation is in the audit log as a use of its lease. Neither a cancellation nor a
// session connects to the database before its entry is written.
//
//ebb:invariant I11 A database session through egress is recorded in the audit log before ebb connects to the database
//ebb:invariant I11 The cancellation of a query in a database session is recorded in the audit log before it is sent
func TestSessionCancelIsOnTheRecord(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	full := new(atomic.Bool)
	d.with(t, func(c *egress.Config) { c.Record = fills{c.Record, full} })
	x := d.dbBox(t)
	conn, tok := x.session(t, d)
	over := d.sleeps(t, conn)
	pid, secret := conn.PgConn().PID(), conn.PgConn().SecretKey()
	came := d.front.came.Load()
	full.Store(true)
	if got := x.cancel(t, d.host, pid, secret); !strings.Contains(got, "C57P03") || !strings.Contains(got, "record_unavailable") {
		t.Errorf("it is not in the audit log: %q", got)
	}
	if _, err := x.connect(t, d, tok.Token.Reveal()); stateOf(err) != "57P03" {
		t.Errorf("a session is not: %v", err)
	}
	if n := d.front.came.Load() - came; n != 0 {
		t.Errorf("%d connections", n)
	}
	full.Store(false)
	if got := x.cancel(t, d.host, pid, secret); got != "" {
		t.Fatalf("%q", got)
	}
	if err := <-over; stateOf(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
	var said []string
	until(t, "it is in the audit log", func() bool {
		said = nil
		for _, e := range d.uses(t, x.s.Task.ID) {
			var use broker.Exchange
			if err := json.Unmarshal(e.Data, &use); err != nil {
				t.Fatal(err)
			}
			if use.Method == "CANCEL" && e.LeaseID == tok.LeaseID && use.Host == d.host && use.Reason == "" && use.Database == d.name {
				said = append(said, e.Kind)
			}
		}
		return len(said) == 2
	})
	if said[0] != audit.EgressAllowed || said[1] != audit.EgressCompleted {
		t.Error(said)
	}
}

// A tool that guesses placeholders does not block the cancellations of other tools.
func TestSessionCancelBesideGuesses(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	conn, _ := x.session(t, d)
	over := d.sleeps(t, conn)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, true)
	for i, status := 0, 0; status != http.StatusTooManyRequests; i++ {
		res, _ := send(t, c, "GET", "https://"+d.bed.host+"/v1/x", "", "Authorization", "Bearer "+guess(t, p, i))
		if status = res.StatusCode; i > 5000 {
			t.Fatal("placeholders are tried without end")
		}
	}
	if got := x.cancel(t, d.host, conn.PgConn().PID(), conn.PgConn().SecretKey()); got != "" {
		t.Fatalf("%q", got)
	}
	if err := <-over; stateOf(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
}
