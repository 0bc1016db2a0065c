package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// maxBatch is the maximum number of units of one transaction. Further units go into the
// next.
const maxBatch = 256

// The states of a unit.
const (
	queued int32 = iota
	taken
	withdrawn
)

// unit is one durable change: all of its writes are committed in one transaction, or none.
type unit struct {
	// work runs the compare-and-swaps. It may run again after a rollback, and it refuses
	// before it writes. It may set lease, entries, and an answer that is returned in
	// place of success.
	work    func(ctx context.Context, s *session, u *unit) error
	lease   *broker.Lease
	entries []audit.Entry
	answer  error
	late    bool // see broker.Record
	egress  bool // only entries about requests through egress
	probe   bool // the probe of Writable

	place atomic.Int32
	done  chan error
}

// durable holds the last committed entry of this run's chain, and the error if the
// database was found without that entry.
type durable struct {
	head audit.Head
	lost error
}

// committer is the only writer. Units wait in a bounded queue.
type committer struct {
	log     *slog.Logger
	engine  *engine
	metrics *metrics
	queue   chan *unit
	time    time.Duration // limit for one batch

	outcomes outcomes

	closing chan struct{} // closed by stop
	gone    chan struct{} // closed when run has returned
	once    sync.Once

	// Owned by run.
	sess     *session // nil: not connected; connecting also reads the end of the chain
	chain    *audit.Chain
	writer   string
	used     time.Time // when the connection last worked
	entryLog *entryLog
	lost     error // set when the database lacks an entry that this run committed; all later writes fail with it

	durable atomic.Pointer[durable] // the part of the state that other goroutines read
	shared  int                     // prompt units of the previous batch
	took    time.Duration
	urgent  bool // the batch holds more than mints and does not wait for further units
	prompt  int  // units of the batch that are not late

	// Buffers that are reused by every batch.
	batch   []*unit
	leases  []*broker.Lease
	entries []audit.Entry
	args    []any
	inserts []statement

	leaseRows, entryRows bulk
}

func newCommitter(cfg Config, e *engine, m *metrics, s *session, chain *audit.Chain) *committer {
	c := &committer{
		log: cfg.Logger, engine: e, metrics: m, queue: make(chan *unit, cfg.Queue), time: cfg.batchTime,
		closing: make(chan struct{}), gone: make(chan struct{}),
		sess: s, chain: chain, writer: chain.Writer(), entryLog: noLog(),
		leaseRows: bulk{e: e}, entryRows: bulk{e: e, head: insertEntry, row: "(" + marks(entryWidth) + ")"},
	}
	c.leaseRows.head, c.leaseRows.row, c.leaseRows.tail = leaseRows(e.lock)
	c.durable.Store(&durable{head: chain.Head()})
	return c
}

// do queues u and waits for its outcome. Before the committer takes u, the end of ctx
// withdraws it and nothing is written. Afterwards do waits for the outcome regardless of
// ctx.
func (c *committer) do(ctx context.Context, u *unit) error {
	if err := c.put(ctx, u); err != nil {
		return err
	}
	return c.outcome(ctx, u)
}

// put queues u.
func (c *committer) put(ctx context.Context, u *unit) error {
	u.done = make(chan error, 1)
	select {
	case <-c.closing:
		return errClosed
	default:
	}
	select {
	case c.queue <- u:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return errClosed
	}
}

// outcome waits for the outcome of u, which put has queued.
func (c *committer) outcome(ctx context.Context, u *unit) error {
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
		if u.place.CompareAndSwap(queued, withdrawn) {
			return ctx.Err()
		}
	case <-c.gone:
		// u may have entered the queue after the committer's last read of it.
		if u.place.CompareAndSwap(queued, withdrawn) {
			return errClosed
		}
	}
	return <-u.done
}

func (c *committer) run() {
	defer close(c.gone)
	for {
		select {
		case u := <-c.queue:
			c.commit(u)
		case <-c.entryLog.due.C:
			c.flush()
		case <-c.closing:
			for {
				select {
				case u := <-c.queue:
					c.commit(u)
				default:
					c.flush()
					c.entryLog.close()
					if c.sess != nil {
						c.sess.close()
					}
					return
				}
			}
		}
	}
}

// commit settles first and the units that share its commit.
func (c *committer) commit(first *unit) {
	c.gather(first)
	if len(c.batch) == 0 {
		return
	}
	start := time.Now()
	c.settle(c.batch)
	c.shared, c.took = c.prompt, time.Since(start)
	c.metrics.batch(len(c.batch), c.took, len(c.queue))
	// The buffers must not keep references to a unit after its caller has returned.
	clear(c.batch)
	clear(c.leases)
	clear(c.entries)
	clear(c.args)
	clear(c.inserts)
}

func (c *committer) stop() {
	c.once.Do(func() { close(c.closing) })
	<-c.gone
}

// ready connects if there is no connection, and then reads the end of the chain back.
func (c *committer) ready(ctx context.Context) error {
	if c.lost != nil {
		return c.lost
	}
	if c.sess != nil {
		return nil
	}
	s, err := openSession(ctx, c.engine)
	if err != nil {
		return err
	}
	chain, err := readChain(ctx, s, c.writer)
	if err == nil {
		chain, err = c.entryLog.resume(chain)
	}
	if err == nil {
		err = c.holds(ctx, s, chain.Head())
	}
	if err != nil {
		s.close()
		return err
	}
	c.sess, c.chain = s, chain
	return nil
}

// holds checks that the database of a new connection has the last committed entry.
// Another server, or a restored database, may lack it. Continuing the chain there would
// fork the audit log.
func (c *committer) holds(ctx context.Context, q querier, end audit.Head) error {
	want := c.durable.Load().head
	if want.Seq == 0 || end == want {
		return nil
	}
	has, err := exists(ctx, q, "SELECT seq FROM audit_entries WHERE writer = ? AND seq = ? AND hash = ?", c.writer, want.Seq, want.Hash)
	if err != nil || has {
		return err
	}
	c.lost = fmt.Errorf("%w: chain %s ends at seq %d, and seq %d was committed; restart ebb for advice", broker.ErrMissing, c.writer, end.Seq, want.Seq)
	c.durable.Store(&durable{head: want, lost: c.lost})
	return c.lost
}

// drop closes the connection and forgets the end of the chain.
func (c *committer) drop() {
	if c.sess != nil {
		c.sess.close()
	}
	c.sess, c.chain = nil, nil
}

// readChain reads the end of the writer's chain and checks its last link.
func readChain(ctx context.Context, q querier, writer string) (*audit.Chain, error) {
	last, err := collect(ctx, q, "SELECT "+entryColumns+" FROM audit_entries WHERE writer = ? ORDER BY seq DESC LIMIT 1", []any{writer}, scanEntry)
	if err != nil {
		return nil, err
	}
	if len(last) == 0 {
		return audit.NewChain(writer)
	}
	chain, err := audit.ResumeChain(last[0])
	if err != nil {
		return nil, errors.Join(errors.New("all writes are refused: verify the audit log"), err)
	}
	return chain, nil
}

// patience is the maximum time that a batch waits for further units, and lateness the
// maximum time for a batch of late units only.
const (
	patience = 10 * time.Millisecond
	lateness = 20 * time.Millisecond
)

// gather collects first and the units that share its commit. Clients whose requests were
// answered together send the next ones shortly after each other: without a wait, the
// first would get a commit of its own, and all others would wait for it. So if several
// units shared the previous batch, this batch waits for as many units, no longer than
// bound. A single client waits for no further units. Batches with more than mints, such
// as the close of a task, do not wait. Late units wait for the first unit that is not
// late, and are not counted.
func (c *committer) gather(first *unit) {
	c.batch, c.urgent, c.prompt = c.batch[:0], false, 0
	c.take(first)
	c.waiting()
	if c.prompt == 0 && len(c.batch) > 0 {
		c.waitLate()
		c.waiting()
	}
	if !c.expects() {
		return
	}
	late := time.NewTimer(c.bound())
	defer late.Stop()
	for c.expects() {
		select {
		case u := <-c.queue:
			c.take(u)
		case <-late.C:
			return
		case <-c.closing:
			return
		}
	}
}

// bound returns the maximum wait for further units: half the duration of the previous
// batch, or with engine.waits more, the larger that batch was. With many clients the wait
// costs none of them anything: the processor is the bottleneck, and each saved commit
// frees some of it.
func (c *committer) bound() time.Duration {
	quarters := max(2, min(c.shared, c.engine.waits))
	return min(c.took*time.Duration(quarters)/4, patience)
}

// waiting takes the units in the queue without blocking.
func (c *committer) waiting() {
	for len(c.batch) < maxBatch {
		select {
		case u := <-c.queue:
			c.take(u)
		default:
			return
		}
	}
}

// waitLate waits until a unit arrives that is not late, the batch is full, or lateness
// has passed.
func (c *committer) waitLate() {
	enough := time.NewTimer(lateness)
	defer enough.Stop()
	for c.prompt == 0 && len(c.batch) < maxBatch {
		select {
		case u := <-c.queue:
			c.take(u)
		case <-enough.C:
			return
		case <-c.closing:
			return
		}
	}
}

// take adds a unit to the batch unless its caller has withdrawn it.
func (c *committer) take(u *unit) {
	if !u.place.CompareAndSwap(queued, taken) {
		return
	}
	c.batch = append(c.batch, u)
	c.urgent = c.urgent || u.work != nil
	if !u.late {
		c.prompt++
	}
}

// expects reports whether the batch should wait for further units.
func (c *committer) expects() bool {
	return !c.urgent && c.prompt > 0 && c.prompt < c.shared && len(c.batch) < maxBatch
}

// metrics are the committer's. No label comes from input.
type metrics struct {
	units    prometheus.Counter
	failures prometheus.Counter
	splits   prometheus.Counter
	sizes    prometheus.Histogram
	seconds  prometheus.Histogram
	waiting  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		units:    prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_units_total", Help: "Units of the committer that got an outcome, including refused and failed ones."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_failures_total", Help: "Units that failed because the database failed, or whose outcome is unknown."}),
		splits:   prometheus.NewCounter(prometheus.CounterOpts{Name: "ebb_database_splits_total", Help: "Batches that were rolled back and run unit by unit."}),
		sizes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ebb_database_batch_units", Help: "Units that shared one commit.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ebb_database_batch_seconds", Help: "Time from the begin to the commit of a batch.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12)}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ebb_database_queue_units", Help: "Units that wait for the next batch."}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.units, m.failures, m.splits, m.sizes, m.seconds, m.waiting} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) batch(n int, took time.Duration, waiting int) {
	m.units.Add(float64(n))
	m.sizes.Observe(float64(n))
	m.seconds.Observe(took.Seconds())
	m.waiting.Set(float64(waiting))
}
