package sqlstore

import "time"

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
