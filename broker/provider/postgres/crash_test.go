package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"ebb/broker/brokertest/crashtest"
	"ebb/broker/provider"
	"ebb/broker/provider/postgres"
)

// TestCrashChild is a broker that is killed; see crashtest.
func TestCrashChild(t *testing.T) {
	crashtest.Child(t, func(t *testing.T, raw json.RawMessage) provider.Driver {
		t.Helper()
		var c postgres.Config
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		d, err := postgres.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// I3, with roles of a real server: kill -9 at every step leaves none.
func TestCrashMatrix(t *testing.T) {
	newBed(t) // skips without a server
	crashtest.Run(t, func(t *testing.T) crashtest.Party {
		t.Helper()
		b := newBed(t)
		return crashtest.Party{Scope: "db:" + b.db + ":read", Driver: b.cfg, Alive: b.members}
	})
}

// members are the roles that leases of this bed made.
func (b bed) members(t *testing.T) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // nothing is lost with it
	rows, err := conn.Query(t.Context(), `SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
		WHERE g.rolname = $1 AND m.rolname LIKE 'ebb-%'`, b.ro)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}
