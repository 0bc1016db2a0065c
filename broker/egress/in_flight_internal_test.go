package egress

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// stuckRecord is a Record whose database does not answer.
type stuckRecord struct {
	Record
	let chan struct{}
}

// UseCompleted implements Record.
func (r stuckRecord) UseCompleted(context.Context, ...broker.EndedExchange) { <-r.let }

// A stop that does not wait for all completion entries reports how many are missing: those that wait
// behind the running write are never tried, and the recorder logs nothing about them.
func TestCloseReportsMissingEnds(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p, record := &Proxy{}, stuckRecord{let: make(chan struct{})}
	b := &Endpoints{cfg: EndpointsConfig{Proxy: p, Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	for range 3 {
		if !p.pending.add("tsk_1") {
			t.Fatal("the request was refused")
		}
		p.pending.write(record, broker.EndedExchange{Caller: broker.Caller{TaskID: "tsk_1"}})
	}
	b.close(time.Millisecond)
	if !strings.Contains(log.String(), "requests=3") {
		t.Errorf("3 completion entries are missing, and the log has %q", log.String())
	}
	log.Reset()
	close(record.let)
	b.close(time.Minute)
	if log.Len() > 0 {
		t.Errorf("no completion entry is missing, and the log has %q", log.String())
	}
}

// countingRecord counts the ends of each write. The first write waits.
type countingRecord struct {
	stuckRecord
	writes *[]int
}

// UseCompleted implements Record.
func (r countingRecord) UseCompleted(ctx context.Context, ends ...broker.EndedExchange) {
	r.stuckRecord.UseCompleted(ctx)
	*r.writes = append(*r.writes, len(ends))
}

// One write has at most maxEnds ends, all ends are written, and each counts for its root task until
// then.
func TestEndsOfSubtasks(t *testing.T) {
	t.Parallel()
	var e pendingEnds
	var writes []int
	record := countingRecord{stuckRecord{let: make(chan struct{})}, &writes}
	who := broker.Caller{TaskID: "tsk_2", Above: []string{"tsk_1"}}
	for range taskPending {
		if !e.add(who.Root()) {
			t.Fatal("the request was refused")
		}
		e.write(record, broker.EndedExchange{Caller: who})
	}
	if e.add(who.Root()) {
		t.Error("a task has more requests without a completion entry than allowed")
	}
	close(record.let)
	if left := e.wait(time.Minute); left > 0 {
		t.Fatalf("%d ends were not written", left)
	}
	sum := 0
	for _, n := range writes {
		if sum += n; n > maxEnds {
			t.Errorf("one write has %d ends, want at most %d", n, maxEnds)
		}
	}
	if sum != taskPending || len(e.of.of) > 0 {
		t.Errorf("%d ends were written, want %d; counts that are left: %v", sum, taskPending, e.of.of)
	}
}
