package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
)

// stateOf returns the SQLSTATE of an error.
func stateOf(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// TestSession: a client without support for ebb reads a database as the role of its lease. Its
// password is a placeholder; the password of the role is in no sandbox, log or audit log. The
// server refuses what the role may not do (E122).
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
	until(t, "the end of the session is in the audit log", func() bool { entries = d.uses(t, x.s.Task.ID); return len(entries) == 2 })
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

// TestSessionRefusalNamesTheScope: the refusal of a session without its credential names the scope
// to request.
//
//ebb:invariant I2 The refusal of a database session names the scopes that allow the session
func TestSessionRefusalNamesTheScope(t *testing.T) {
	t.Parallel()
	d := newDBBed(t)
	x := d.dbBox(t)
	hint := func(password, database string) string {
		_, err := x.connect(t, d, password, func(c *pgx.ConnConfig) { c.Database = database })
		pe, is := errors.AsType[*pgconn.PgError](err)
		if !is || pe.Message == "" || pe.Detail == "" {
			t.Fatalf("refused with %v", err)
		}
		return pe.Hint
	}
	for _, password := range []string{"mine", egress.Prefix + "lse_0", x.placeholder(t, "stripe:charges:read")} {
		m := commandForm.FindStringSubmatch(hint(password, d.name))
		if m == nil || m[1] != d.scope() {
			t.Errorf("%s: the hint names %v", password, m)
		}
	}
	if got := hint(x.placeholder(t, d.scope()), "postgres\u202e"); !strings.HasPrefix(got, "No scope that the task may ask for covers it. ") || strings.Contains(got, "postgres") {
		t.Errorf("another database: %q", got)
	}
	if _, err := x.connect(t, d, x.placeholder(t, d.scope())); err != nil {
		t.Errorf("with that scope: %v", err)
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
