package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/provider"
)

// stateOf is the SQLSTATE of an error.
func stateOf(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// TestSession: a client that knows nothing of ebb reads a database as the role of its lease. Its
// password is a placeholder; the role's is in no box, log or record.
func TestSession(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	conn, tok := x.session(t, d)
	password := d.secret(t, x, tok.LeaseID)
	var id int
	var role, app, notices string
	if err := conn.QueryRow(t.Context(), "SELECT id, current_user, current_setting('application_name'), current_setting('statement_timeout') FROM t").Scan(&id, &role, &app, &notices); err != nil {
		t.Fatal(err)
	}
	if id != 42 || !strings.HasPrefix(role, "ebb-") || app != "psql" || notices != "0" {
		t.Errorf("%d as %s by %s, a timeout of %s", id, role, app, notices)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1)"); stateOf(err) != "42501" {
		t.Errorf("a reader writes: %v", err)
	}
	_ = conn.Close(t.Context())
	var entries []audit.Entry
	until(t, "the session is over on the record", func() bool { entries = d.uses(t, x.s.Task.ID); return len(entries) == 2 })
	var began, ended broker.Exchange
	for i, to := range []*broker.Exchange{&began, &ended} {
		if err := json.Unmarshal(entries[i].Data, to); err != nil {
			t.Fatal(err)
		}
	}
	if entries[0].Kind != audit.EgressAllowed || began.Host != d.host || began.Protocol != provider.PostgreSQL || began.Database != d.name || entries[0].LeaseID != tok.LeaseID {
		t.Errorf("allowed: %+v", entries[0])
	}
	if entries[1].Kind != audit.EgressCompleted || ended.Sent == 0 || ended.Received == 0 || ended.Cut || ended.Reason != "" {
		t.Errorf("completed: %s", entries[1].Data)
	}
	all, err := d.Broker.Entries(t.Context(), d.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: x.s.Task.ID})
	if err != nil {
		t.Fatal(err)
	}
	for e := range all {
		if strings.Contains(string(e.Data), password) {
			t.Errorf("the record holds the password: %s", e.Kind)
		}
	}
	if strings.Contains(d.log.String(), password) {
		t.Error("the log holds the password")
	}
}

// A box cancels queries of its own sessions, and of no other's, whoever tells it the key.
func TestSessionCancel(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x, other := d.dbBox(t), d.dbBox(t)
	conn, _ := x.session(t, d)
	over := make(chan error, 1)
	go func() { _, err := conn.Exec(context.Background(), "SELECT pg_sleep(600)"); over <- err }()
	key := append([]byte{0, 0, 0, 0x10, 0x04, 0xd2, 0x16, 0x2e}, be32(conn.PgConn().PID())...)
	sleeping := func() (n int) {
		if err := d.query(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until(t, "it sleeps", func() bool { return sleeping() == 1 })
	ask := func(x *box, secret []byte) string {
		c, in := x.tunnel(t, d.host)
		if _, err := c.Write(append(append([]byte(nil), key...), secret...)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 512)
		n, _ := in.Read(answer)
		return string(answer[:n])
	}
	secret := conn.PgConn().SecretKey()
	came := d.front.came.Load()
	if got := ask(other, secret); !strings.Contains(got, "C28P01") {
		t.Errorf("another box's: %q", got)
	}
	guess := append([]byte(nil), secret...)
	guess[0]++
	if got := ask(x, guess); !strings.Contains(got, "C28P01") {
		t.Errorf("a guess: %q", got)
	}
	if n := d.front.came.Load() - came; n != 0 || sleeping() != 1 {
		t.Errorf("%d connections for nothing, %d sleep", n, sleeping())
	}
	if got := ask(x, secret); got != "" {
		t.Errorf("its own: %q", got)
	}
	if err := <-over; stateOf(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func (d *dbBed) query(t *testing.T, text string, into any) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	return conn.QueryRow(t.Context(), text).Scan(into)
}

func be32(n uint32) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }
