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
// password is a placeholder; the role's is in no box, log or record. What the role may not the server refuses (E122).
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
