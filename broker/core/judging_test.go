package core_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// scales is an attestor whose checks are expensive: each lasts until the test ends it. Its evidence
// is the name of a sandbox.
type scales struct {
	asked   atomic.Int32
	running atomic.Int32
	most    atomic.Int32
	hold    chan struct{} // nil = no wait
}

func (s *scales) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	name := string(e.Document)
	if name == "" {
		return attest.Identity{}, attest.Reject(attest.ReasonMalformed, "there is no name", nil)
	}
	leave, err := attest.Costly(ctx)
	if err != nil {
		return attest.Identity{}, fmt.Errorf("scales: cannot judge: %w", err)
	}
	defer leave()
	s.asked.Add(1)
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for was := s.most.Load(); n > was && !s.most.CompareAndSwap(was, n); was = s.most.Load() {
	}
	if s.hold != nil && !strings.HasPrefix(name, "quick") {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return attest.Identity{}, ctx.Err()
		}
	}
	if name == "liar" {
		return attest.Identity{}, attest.Reject(attest.ReasonSignature, "that is not so", nil)
	}
	return attest.Identity{Attestor: "scales", Subject: name, Class: attest.ClassSigned, Selectors: map[string]string{"name": name}}, nil
}

// weighed is a broker with scales, and functions that open tasks and enrol for them.
type judged struct {
	*brokertest.Env
	t *testing.T
}

func (w judged) open(attestor, name string) string {
	w.t.Helper()
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: attestor, Selectors: map[string]string{"name": name}}
	task, _, err := w.Broker.OpenTask(w.t.Context(), w.Principals[brokertest.Runner], spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return task.ID
}

func (w judged) enrol(task, name, from string, key jose.Signer) error {
	p := w.Prove(w.t, key)
	p.From = from
	_, err := w.Broker.Enrol(w.t.Context(), task, attest.Evidence{Attestor: "scales", Document: []byte(name)}, p)
	return err
}

func newJudged(t *testing.T, s *scales, l broker.Limits) judged {
	t.Helper()
	return judged{brokertest.New(t, brokertest.Config{Limits: l, Attestors: map[string]attest.Attestor{"scales": s, "lantern": newLantern()}}), t}
}

// Evidence that cannot succeed is not checked: without an open task of this attestor, or for a task
// that has its sandbox, ebb calls no attestor.
func TestStrangersCostNothing(t *testing.T) {
	t.Parallel()
	s := &scales{}
	w := newJudged(t, s, broker.Limits{})
	bound, closed, foreign := w.open("scales", "a"), w.open("scales", "b"), w.open("lantern", "c")
	key := brokertest.NewKey(t)
	if err := w.enrol(bound, "a", "here", key); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Broker.CompleteTask(t.Context(), w.Principals[brokertest.Runner], closed, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	s.asked.Store(0)
	for name, task := range map[string]string{"no task": "", "garbage": "tsk_x", "unknown": "tsk_" + strings.Repeat("0", 32), "closed": closed, "another attestor's": foreign, "another key's": bound} {
		for range 50 {
			if kind := broker.AsError(w.enrol(task, "a", "there", brokertest.NewKey(t))).Kind; kind != broker.InvalidEvidence {
				t.Fatalf("%s: %s", name, kind)
			}
		}
	}
	if n := s.asked.Load(); n != 0 {
		t.Errorf("strangers had evidence judged %d times", n)
	}
	if err := w.enrol(bound, "a", "there", key); err != nil { // they have used no places
		t.Errorf("the sandbox itself, from the strangers' address: %v", err)
	}
	families, err := w.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	turned := 0.0
	for _, f := range families {
		if f.GetName() == "ebb_judgements_turned_away_total" {
			for _, m := range f.GetMetric() {
				turned += m.GetCounter().GetValue()
			}
		}
	}
	if turned != 300 {
		t.Errorf("%v turned away, want 300", turned)
	}
}

// A flood from one address, with valid task ids and while checks hang, leaves others their places,
// and is no violation of the named tasks.
func TestFloodFromOnePlaceLeavesOthersTheirs(t *testing.T) {
	t.Parallel()
	s := &scales{hold: make(chan struct{})}
	w := newJudged(t, s, broker.Limits{Judging: 8})
	var tasks []string
	for i := range 20 {
		tasks = append(tasks, w.open("scales", fmt.Sprint("quick", i)))
	}
	var flood sync.WaitGroup
	var refused atomic.Int32
	for i := range 60 {
		key, task := brokertest.NewKey(t), tasks[i%10]
		flood.Go(func() {
			err := w.enrol(task, "liar", "flood", key)
			switch e := broker.AsError(err); {
			case err == nil:
				t.Error("a liar was believed")
			case e.Kind == broker.TooMany, e.Kind == broker.Unavailable:
				refused.Add(1)
				if e.RetryAfter <= 0 {
					t.Error("no Retry-After")
				}
			case e.Kind != broker.InvalidEvidence:
				t.Errorf("the flood was told %v", err)
			}
		})
	}
	poll(t, "the flood has its places", func() bool { return s.running.Load() == 4 && refused.Load() > 0 })
	for i := 10; i < 20; i++ {
		if err := w.enrol(tasks[i], fmt.Sprint("quick", i), "elsewhere", brokertest.NewKey(t)); err != nil {
			t.Errorf("another caller: %v", err)
		}
	}
	if n := s.most.Load(); n > 5 {
		t.Errorf("%d at one time: the flood had more than half of the places", n)
	}
	close(s.hold)
	flood.Wait()
	for _, id := range tasks {
		live, err := w.Config.LiveStore.Admit(t.Context(), broker.Admission{TaskID: id})
		if err != nil || live.Violations != 0 || live.Denials != 0 || live.State != broker.TaskOpen {
			t.Errorf("%s: %+v, %v", id, live, err)
		}
	}
}

// poll waits until is holds.
func poll(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what + ": it does not come to that")
		}
	}
}

// The number of checks each second is limited: a tenth of them for a task, a quarter for an
// address, and all for everything; the next second has them again.
func TestJudgementsASecond(t *testing.T) {
	t.Parallel()
	s := &scales{}
	w := newJudged(t, s, broker.Limits{JudgedPerSec: 40})
	burst := func(from string, tasks ...string) (judged int, told broker.Kind) {
		before := s.asked.Load()
		for i := range 60 {
			if e := broker.AsError(w.enrol(tasks[i%len(tasks)], "liar", from, brokertest.NewKey(t))); e.Kind != broker.InvalidEvidence && told == "" {
				told = e.Kind
			}
		}
		return int(s.asked.Load() - before), told
	}
	var tasks []string
	for range 50 {
		tasks = append(tasks, w.open("scales", "x"))
	}
	if n, kind := burst("a", tasks[0]); n != 4 || kind != broker.TooMany {
		t.Errorf("one task: %d judged, then %s", n, kind)
	}
	if n, kind := burst("b", tasks[1:21]...); n != 10 || kind != broker.TooMany {
		t.Errorf("one place: %d judged, then %s", n, kind)
	}
	total := 14
	for _, from := range []string{"c", "d"} {
		n, _ := burst(from, tasks[21:]...)
		total += n
	}
	if n, kind := burst("e", tasks[21:]...); total+n != 40 || kind != broker.Unavailable {
		t.Errorf("everybody: %d judged, then %s", total+n, kind)
	}
	w.Clock.Add(time.Second)
	if n, _ := burst("a", tasks[0]); n != 4 {
		t.Errorf("a second later: %d judged", n)
	}
}
