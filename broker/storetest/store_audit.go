package storetest

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func chainUnderConcurrency(t *storeTest) {
	task := t.openTask()
	errs := race(16, func(i int) error {
		for j := range 25 {
			l := Lease(task.ID)
			e := Entry(audit.LeaseIssued, task.ID)
			e.At = Epoch.Add(time.Duration(i-j) * time.Second) // in overlapping order
			if err := t.Store.Append(t.Context(), broker.Record{IssueLease: &l, Entries: []audit.Entry{e, e}}); err != nil {
				return err
			}
		}
		return nil
	})
	t.want("append", errors.Join(errs...), nil)
	r := t.verify()
	if len(r.Writers) != 1 || r.Writers[0].Last != 801 || r.Entries != 801 {
		t.Errorf("got %+v, want one chain of 801", r)
	}
}

// Entries keep the order in which the caller appends them, regardless of their times.
func chainTime(t *storeTest) {
	at := []time.Duration{0, 5, 2, 9}
	for i, d := range at {
		e := Entry(audit.TaskOpened, fmt.Sprint("tsk_", i))
		e.At = Epoch.Add(d * time.Second)
		e.Data = json.RawMessage(` {"b": "<\u00e9>", "a": 1.0} `)
		t.append(broker.Record{Entries: []audit.Entry{e}})
	}
	got := t.entries(broker.EntryFilter{})
	for i, want := range []time.Duration{0, 5, 5, 9} {
		e := got[i]
		if e.TaskID != fmt.Sprint("tsk_", i) || !e.At.Equal(Epoch.Add(want*time.Second)) || e.Seq != int64(i+1) || string(e.Data) != `{"a":1,"b":"<é>"}` {
			t.Errorf("entry %d: got %+v", i, e)
		}
	}
}

func entryFilters(t *storeTest) {
	kinds := []string{audit.TaskOpened, audit.LeaseIssued, audit.LeaseRevoked, audit.LiveStoreRefilled, audit.RequestCreated, audit.TaskClosed}
	for i, kind := range kinds {
		t.append(broker.Record{Entries: []audit.Entry{{
			At: Epoch.Add(time.Duration(i) * time.Minute), Kind: kind, Actor: fmt.Sprint("actor", i%2),
			TaskID: []string{"tsk_a", "tsk_b", ""}[i%3], LeaseID: []string{"", "lse_a"}[i%2], RequestID: []string{"", "", "req_a"}[i%3],
		}}})
	}
	second := t.another()
	t.want("append", second.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{{At: Epoch, Kind: audit.BrokerStarted, Actor: "ebb"}}}), nil)
	writer := t.entries(broker.EntryFilter{Kind: audit.TaskOpened})[0].Writer
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	for name, tt := range map[string]struct {
		f    broker.EntryFilter
		want []string
	}{
		"task":       {broker.EntryFilter{TaskID: "tsk_a"}, []string{kinds[0], kinds[3]}},
		"lease":      {broker.EntryFilter{LeaseID: "lse_a"}, []string{kinds[1], kinds[3], kinds[5]}},
		"request":    {broker.EntryFilter{RequestID: "req_a"}, []string{kinds[2], kinds[5]}},
		"kind":       {broker.EntryFilter{Kind: audit.LeaseIssued}, []string{kinds[1]}},
		"kinds":      {broker.EntryFilter{Kind: "lease."}, []string{kinds[1], kinds[2]}},
		"no pattern": {broker.EntryFilter{Kind: "l%."}, nil},
		"not a kind": {broker.EntryFilter{Kind: "lease"}, nil},
		"actor":      {broker.EntryFilter{Actor: "actor1"}, []string{kinds[1], kinds[3], kinds[5]}},
		"writer":     {broker.EntryFilter{Writer: writer}, kinds},
		"after":      {broker.EntryFilter{Writer: writer, AfterSeq: 4}, kinds[4:]},
		"time":       {broker.EntryFilter{From: minute(1), To: minute(3)}, kinds[1:3]},
		"limit":      {broker.EntryFilter{Writer: writer, Limit: 2}, kinds[:2]},
		"newest":     {broker.EntryFilter{Desc: true, Limit: 2}, []string{kinds[5], kinds[4]}},
		"together":   {broker.EntryFilter{TaskID: "tsk_b", Kind: "lease.", Actor: "actor1", From: minute(1)}, []string{kinds[1]}},
	} {
		var got []string
		for _, e := range t.entries(tt.f) {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if got := t.entries(broker.EntryFilter{Desc: true}); len(got) != 7 || got[6].At.After(got[5].At) {
		t.Errorf("got %d entries in another order", len(got))
	}
	for _, f := range []broker.EntryFilter{{AfterSeq: 1}, {Limit: -1}} {
		for _, err := range t.Store.Entries(t.Context(), f) {
			if err == nil {
				t.Errorf("%+v accepted", f)
			}
		}
	}
}

func checkpoints(t *storeTest) {
	t.openTask()
	second := t.another()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := jose.NewKey("k", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := jose.NewKeySet(pub)
	if err != nil {
		t.Fatal(err)
	}
	if cs, err := t.Store.Checkpoints(t.Context()); err != nil || len(cs) != 0 {
		t.Fatalf("got %v, %v", cs, err)
	}
	var made []audit.Checkpoint
	for i := range 3 {
		task := Task()
		t.want("append", second.Store.Append(t.Context(), broker.Record{OpenTask: &task, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}}), nil)
		last, err := t.Store.Heads(t.Context())
		if err != nil || len(last) != 2 {
			t.Fatalf("got %v, %v", last, err)
		}
		heads := map[string]audit.Head{}
		for _, e := range last {
			if e.Hash != audit.Sum(e) {
				t.Errorf("head %+v does not have its own hash", e)
			}
			heads[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
		}
		c, err := audit.SignCheckpoint(key, "k", Epoch.Add(time.Duration(i)*time.Minute), heads)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, c)
	}
	for _, i := range []int{2, 0, 1, 1} { // in any order, and one twice
		t.want("add", t.Store.AddCheckpoint(t.Context(), made[i]), nil)
	}
	got, err := second.Store.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.same("checkpoints", got, made)
	if r := t.verifyWith(keys); !r.Whole() || r.Unsealed != 0 || r.Checkpoints != 3 {
		t.Errorf("got %+v", r)
	}
	old := made[0].Heads
	asked := map[string]audit.Head{"unknown": {Seq: 1, Hash: strings.Repeat("0", 64)}}
	for writer, h := range made[2].Heads {
		asked[writer] = h
		if h != old[writer] { // a chain that has grown; its old head was signed, too, its next one was not
			next := h
			next.Seq++
			asked[writer] = next
		}
	}
	every := func(audit.Checkpoint) bool { return true }
	rest, err := t.Store.Unsigned(t.Context(), asked, every)
	if err != nil {
		t.Error(err)
	}
	for writer := range asked {
		if _, is := rest[writer]; is == (asked[writer] == made[2].Heads[writer]) {
			t.Errorf("unsigned %s: %t", writer, is)
		}
	}
	if rest, err := t.Store.Unsigned(t.Context(), old, every); err != nil || len(rest) > 0 {
		t.Errorf("heads of the oldest checkpoint: %v, %v", rest, err)
	}
	// A checkpoint that is not valid covers nothing.
	newest := func(c audit.Checkpoint) bool { return c.JWS == made[2].JWS }
	if rest, err := t.Store.Unsigned(t.Context(), old, newest); err != nil || len(rest) != 1 {
		t.Errorf("only the newest checkpoint is valid: %v, %v", rest, err)
	}
	if err := t.Store.AddCheckpoint(t.Context(), audit.Checkpoint{At: Epoch}); err == nil {
		t.Error("an unsigned checkpoint was added")
	}
}

// A reader that stops early releases its connection, and a slow reader blocks no other.
func breakOff(t *storeTest) {
	for range 100 {
		t.openTask()
	}
	for range 50 {
		for _, err := range t.Store.Entries(t.Context(), broker.EntryFilter{}) {
			t.want("entries", err, nil)
			break
		}
	}
	for range 4 {
		next, stop := iter.Pull2(t.Store.Entries(t.Context(), broker.EntryFilter{}))
		defer stop()
		if _, err, ok := next(); err != nil || !ok {
			t.Fatalf("got %v, %v", err, ok)
		}
	}
	task := t.openTask()
	t.same("task", t.task(task.ID), task)
	t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID, Limit: 10})), 1)
}
