package memstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

//ebb:invariant I10 Of concurrent or repeated claims of a single-use value, the live store grants one
//ebb:invariant I12 Simultaneous early polls lengthen the polling interval only once
//ebb:invariant I12 The number of live credentials of a task is limited
//ebb:invariant I12 The number of live credentials of an owner is limited, over all of the owner's tasks
func TestLiveStore(t *testing.T) {
	t.Parallel()
	var stores sync.Map // test name -> *Store: all clients of a test share one store
	storetest.RunLiveStore(t, func(t *testing.T, now func() time.Time) broker.LiveStore {
		s, known := stores.LoadOrStore(t.Name(), memstore.New(memstore.Config{Now: now}))
		if !known {
			t.Cleanup(func() { _ = s.(*memstore.Store).Close() })
		}
		return s.(*memstore.Store)
	})
}

func BenchmarkLiveStore(b *testing.B) {
	storetest.BenchLiveStore(b, func(*testing.B) broker.LiveStore { return memstore.New(memstore.Config{}) })
}

// Unauthenticated callers can fill the store only up to MaxEntries, and their entries are
// removed without a timer.
//
//ebb:invariant I12
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
		t.Errorf("a value was kept in a full live store")
	}
	// A task can still be opened, hold leases and be closed: revocation does not count
	// against MaxEntries.
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
