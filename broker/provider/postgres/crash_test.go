package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/crashtest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
)

// TestCrashChild is a broker that is killed; see crashtest.
func TestCrashChild(t *testing.T) {
	crashtest.Child(t, func(t *testing.T, c postgres.Config) provider.Driver {
		t.Helper()
		d, err := postgres.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// TestCrashMatrix: I3, with roles of a real server: a kill -9 at any step leaves no role.
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
		WHERE g.rolname IN ($1, $2) AND m.rolname LIKE 'ebb-%'`, b.ro, b.rw)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSweepDropsRolesWithoutARecord: the sweep finds a role without an entry in the database
// by its name, and drops it.
func TestSweepDropsRolesWithoutARecord(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e := brokertest.New(t, brokertest.Config{
		RealTime: true, Run: true, Issuer: "https://" + b.db + ".test", Limits: broker.Limits{Sweep: 2 * time.Second},
		Providers: map[string]broker.Provider{"db": {Driver: b.driver(t), Kind: "postgres", Resource: "https://db.test/"}},
	})
	sum := sha256.Sum256([]byte(e.Issuer))
	g := b.grant("write")
	g.Instance, g.LeaseID = hex.EncodeToString(sum[:4]), "lse_019adc8f6f7a7c1d8f2f4b5c6d7e8f91" // of November 2025
	if _, err := b.driver(t).Mint(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var told int
		for _, err := range e.Store.Entries(t.Context(), broker.EntryFilter{LeaseID: g.LeaseID, Kind: audit.OrphanRevoked}) {
			if err != nil {
				t.Fatal(err)
			}
			told++
		}
		if told == 1 && len(b.members(t)) == 0 {
			return
		}
		if time.Now().After(end) || told > 1 {
			t.Fatalf("%d entries, roles %v", told, b.members(t))
		}
	}
}
