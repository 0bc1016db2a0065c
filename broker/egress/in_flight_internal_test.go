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
