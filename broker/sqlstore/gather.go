package sqlstore

import "time"

// patience bounds how long a batch waits for company, lateness how long one does that holds
// nothing but late units.
const (
	patience = 10 * time.Millisecond
	lateness = 20 * time.Millisecond
)

// gather takes first and what shares its commit. Clients that were answered together
// come back one after the other: the first of them would have a commit of its own, and
// all others wait for it. So where the batch before was shared, this one waits for as
// many units, and no longer than bound. Who comes alone waits for nobody, and nothing waits
// that is more than a mint, such as the end of a task. Late units wait for the first who is
// not, and count as nobody's company.
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

// bound is how long a batch waits for company at most: half as long as the one before took,
// and where engine.waits allows it the longer the more shared that one. With many clients a
// wait costs none of them anything, because the processor is what they all wait for, and each
// commit that is not made leaves them more of it.
func (c *committer) bound() time.Duration {
	quarters := max(2, min(c.shared, c.engine.waits))
	return min(c.took*time.Duration(quarters)/4, patience)
}

// waiting takes what is in the queue.
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

// waitLate waits until somebody comes who is not late, until the batch is full or has waited
// long enough.
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

// expects reports whether company is worth waiting for.
func (c *committer) expects() bool {
	return !c.urgent && c.prompt > 0 && c.prompt < c.shared && len(c.batch) < maxBatch
}
