package sqlstore_test

import (
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// A new connection may lead to a restored database. The store compares it with the last
// committed entry and refuses all writes to a database that lacks this entry, so the
// chain is not forked.
//
//ebb:invariant I11 After a reconnection, ebb does not write to a database that lacks its last committed audit log entry
func TestReconnectToAnOlderDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := open(t, empty(t))
		add := func() error {
			return s.Append(t.Context(), broker.Record{Entries: []audit.Entry{storetest.Entry(audit.PolicyReloaded, "")}})
		}
		for range 3 {
			if err := add(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Reconnect(t.Context()); err != nil {
			t.Fatal("the same database:", err)
		}
		if err := add(); err != nil {
			t.Fatal("after a new connection:", err)
		}
		writer, last, err := s.Durable()
		if err != nil || writer != s.Writer() || last.Seq != 4 || len(last.Hash) != 64 {
			t.Fatalf("durable: %s %+v %v, want seq 4 of %s", writer, last, err, s.Writer())
		}
		if err := s.Say(t.Context(), "DELETE FROM audit_entries WHERE seq > 2"); err != nil {
			t.Fatal(err)
		}
		if err := s.Reconnect(t.Context()); !errors.Is(err, broker.ErrMissing) {
			t.Fatalf("an older database: %v, want ErrMissing", err)
		}
		if err := add(); !errors.Is(err, broker.ErrMissing) {
			t.Errorf("append to an older database: %v, want ErrMissing", err)
		}
		if _, at, err := s.Durable(); !errors.Is(err, broker.ErrMissing) || at != last {
			t.Errorf("durable: %+v %v, want the committed entry and ErrMissing", at, err)
		}
	})
}
