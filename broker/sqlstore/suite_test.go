package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// databases are the kinds of database; each call makes an empty one with the schema.
func databases() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{
		"sqlite":   sqlstoretest.SQLite,
		"postgres": sqlstoretest.Postgres,
	}
}

// bare makes databases without the schema.
func bare() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "ebb.db") },
		"postgres": storetest.Postgres,
	}
}

func open(t testing.TB, url string) *sqlstore.Store {
	t.Helper()
	return opened(t, sqlstore.Config{URL: url, MaxConns: 4})
}

// toFill opens a store whose data is written before it is read.
func toFill(t testing.TB, url string) *sqlstore.Store {
	t.Helper()
	return opened(t, sqlstore.Config{URL: url, MaxConns: 4}.Patiently())
}

func opened(t testing.TB, c sqlstore.Config) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// each runs f on every kind of database.
func each(t *testing.T, f func(t *testing.T, empty func(testing.TB) string)) {
	t.Helper()
	eachOf(t, databases(), f)
}

func eachOf(t *testing.T, kinds map[string]func(testing.TB) string, f func(t *testing.T, empty func(testing.TB) string)) {
	t.Helper()
	for name, empty := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, empty)
		})
	}
}

func stores(empty func(testing.TB) string) storetest.OpenStores {
	return func(t *testing.T) func() storetest.Stores {
		url := empty(t)
		return func() storetest.Stores {
			s := open(t, url)
			return storetest.Stores{Store: s, ApprovalStore: s, Policies: s, Sessions: s, Close: s.Close}
		}
	}
}

//ebb:invariant I10
func TestStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) { storetest.RunStore(t, stores(empty)) })
}

// TestSortedByLanguage: the rows of a list do not depend on the database's collation.
func TestSortedByLanguage(t *testing.T) {
	t.Parallel()
	storetest.RunLists(t, stores(storetest.PostgresSorted))
}

//ebb:invariant I5 A request that needs two approvals is granted only the scopes in both approvals, for the shorter lifetime
//ebb:invariant I6 A break-glass period begins only in a console session that has neither ended nor expired
//ebb:invariant I6 A person cannot have two open break-glass periods at once, whatever isolation level the database uses by default
//ebb:invariant I7 The approval store accepts an approval only if its digest equals the digest of the request
//ebb:invariant I7 One person has one vote on a request, whichever of their names they use
//ebb:invariant I10 A person can have only one open break-glass period, whichever of their names they use
//ebb:invariant I10 A break-glass period is ended only once
//ebb:invariant I10 An approval under a break-glass period counts only while that period is open
//ebb:invariant I11 A vote that a later vote of the same person replaces is kept in the database
//ebb:invariant I12 The number of approvals under a break-glass period is limited
//ebb:invariant I12 The number of break-glass periods that a person begins within a time window is limited
func TestApprovalStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) { storetest.RunApprovalStore(t, stores(empty)) })
}

func TestRevocationQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) { storetest.RunRevocationQueue(t, stores(empty)) })
}

//ebb:invariant I10 A policy release number is used only once: of two concurrent publications with the same number, the second fails
func TestPolicies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) { storetest.RunPolicies(t, stores(empty)) })
}
