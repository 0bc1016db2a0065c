package memstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/memstore"
	"ebb/broker/storetest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	var stores sync.Map // test name -> *Store: every "client" of a test is the one store
	storetest.RunLedger(t, func(t *testing.T, now func() time.Time) broker.Ledger {
		s, known := stores.LoadOrStore(t.Name(), memstore.New(memstore.Config{Now: now}))
		if !known {
			t.Cleanup(func() { _ = s.(*memstore.Store).Close() })
		}
		return s.(*memstore.Store)
	})
}

func BenchmarkLedger(b *testing.B) {
	storetest.BenchLedger(b, func(*testing.B) broker.Ledger { return memstore.New(memstore.Config{}) })
}

// Strangers can fill it, but not beyond its bound, and what they filled it with
// goes away without a timer.
func TestBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := memstore.New(memstore.Config{Now: func() time.Time { return now }, MaxEntries: 100})
	claim := func(i int) error {
		_, err := s.Admit(t.Context(), broker.Admission{Claims: []broker.Claim{{Key: fmt.Sprint(i), Until: now.Add(time.Minute)}}})
		return err
	}
	for i := range 100 {
		if err := claim(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := claim(100); err == nil {
		t.Errorf("claim 101 of 100 was kept")
	}
	if err := s.Put(t.Context(), "v", "", now.Add(time.Minute)); err == nil {
		t.Errorf("a value was kept in a full ledger")
	}
	// A task can still be opened, hold leases and end: revocation has its own way.
	if err := s.PutTask(t.Context(), broker.Live{Task: broker.Task{ID: "tsk_1", State: broker.TaskOpen}}, now); err != nil {
		t.Errorf("PutTask: %v", err)
	}
	if _, _, err := s.SetState(t.Context(), "tsk_1", broker.TaskClosed, now, now); err != nil {
		t.Errorf("SetState: %v", err)
	}
	now = now.Add(3 * time.Minute)
	for i := range 100 {
		if err := claim(1000 + i); err != nil {
			t.Fatalf("claim %d after the others expired: %v", i, err)
		}
	}
}
