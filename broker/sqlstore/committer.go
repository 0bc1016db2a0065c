package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

// maxBatch bounds a transaction: what waits longer than that many units takes
// the next one.
const maxBatch = 256

// Where a unit is on its way.
const (
	queued int32 = iota
	taken
	withdrawn
)

// unit is one durable unit on its way through the committer.
type unit struct {
	// work runs compare-and-swaps. It may run again after a rollback, and it
	// refuses before it writes. It may choose the lease and entries, and an answer
	// other than success for what it wrote.
	work    func(ctx context.Context, s *session, u *unit) error
	lease   *broker.Lease
	entries []audit.Entry
	answer  error
	late    bool // see broker.Record
	probe   bool // a write of Writable

	place atomic.Int32
	done  chan error
}

// durable is the last entry of this run's chain that is known to be committed, and why the
// database was found not to have it.
type durable struct {
	head audit.Head
	lost error
}

// committer is the one writer. Units wait in a bounded queue.
type committer struct {
	log     *slog.Logger
	engine  *engine
	metrics *metrics
	queue   chan *unit
	time    time.Duration // that a batch may take

	outcomes outcomes

	closing chan struct{} // closed by stop
	gone    chan struct{} // closed when run has returned
	once    sync.Once

	// Owned by run.
	sess   *session // nil: to be opened, and the chain to be read back
	chain  *audit.Chain
	writer string
	used   time.Time // when the connection was last known to work
	lost   error     // the database lacks what this run committed: nothing is written any more

	durable atomic.Pointer[durable] // what others may know of it
	shared  int                     // units of the batch before
	took    time.Duration
	urgent  bool // the batch that is gathered waits for nobody
	prompt  int  // units of it that are not late

	// Scratch space of one batch.
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
		sess: s, chain: chain, writer: chain.Writer(),
		leaseRows: bulk{e: e}, entryRows: bulk{e: e, head: insertEntry, row: "(" + marks(entryWidth) + ")"},
	}
	c.leaseRows.head, c.leaseRows.row, c.leaseRows.tail = leaseRows(e.lock)
	c.durable.Store(&durable{head: chain.Head()})
	return c
}

// do queues u and waits for its outcome. Until the committer has taken it, ctx
// withdraws it and nothing happened; afterwards do waits for the outcome.
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

// outcome waits for what became of u, which was put.
func (c *committer) outcome(ctx context.Context, u *unit) error {
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
		if u.place.CompareAndSwap(queued, withdrawn) {
			return ctx.Err()
		}
	case <-c.gone:
		// It may have slipped into the queue after the last look.
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
		case <-c.closing:
			for {
				select {
				case u := <-c.queue:
					c.commit(u)
				default:
					if c.sess != nil {
						c.sess.close()
					}
					return
				}
			}
		}
	}
}

// commit settles first and what shares its commit.
func (c *committer) commit(first *unit) {
	c.gather(first)
	if len(c.batch) == 0 {
		return
	}
	start := time.Now()
	c.settle(c.batch)
	c.shared, c.took = c.prompt, time.Since(start)
	c.metrics.batch(len(c.batch), c.took, len(c.queue))
	// Nothing of a unit may outlive its caller here.
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

// ready makes sure there is a connection, and that the chain is where the
// database says it is.
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
		err = c.holds(ctx, s, chain.Head())
	}
	if err != nil {
		s.close()
		return err
	}
	c.sess, c.chain = s, chain
	return nil
}

// holds makes sure that the database a new connection leads to has the last entry that was
// committed: another server, or one that was restored, may not. A chain that went on from there
// would fork the audit log.
func (c *committer) holds(ctx context.Context, q querier, end audit.Head) error {
	want := c.durable.Load().head
	if want.Seq == 0 || end == want {
		return nil
	}
	has, err := exists(ctx, q, "SELECT seq FROM audit_entries WHERE writer = ? AND seq = ? AND hash = ?", c.writer, want.Seq, want.Hash)
	if err != nil || has {
		return err
	}
	c.lost = fmt.Errorf("%w: chain %s ends at seq %d, and seq %d was committed; restart ebb and it says what to do", broker.ErrMissing, c.writer, end.Seq, want.Seq)
	c.durable.Store(&durable{head: want, lost: c.lost})
	return c.lost
}

// drop gives up the connection and what is believed about the chain.
func (c *committer) drop() {
	if c.sess != nil {
		c.sess.close()
	}
	c.sess, c.chain = nil, nil
}

// readChain reads back where the writer's chain ends and checks its last link.
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
		return nil, errors.Join(errors.New("nothing is written any more: have the record examined"), err)
	}
	return chain, nil
}
