package sqlstore

import "time"

// patience bounds how long a batch waits for company.
const patience = 10 * time.Millisecond

// gather takes first and what shares its commit. Clients that were answered together
// come back one after the other: the first of them would have a commit of its own, and
// all others wait for it. So where the batch before was shared, this one waits for as
// many units, at most half as long as that one took. Who comes alone waits for nobody,
// and nothing waits that is more than a mint, such as the end of a task.
func (c *committer) gather(first *unit) {
	c.batch, c.urgent = c.batch[:0], false
	c.take(first)
	for len(c.batch) < maxBatch {
		select {
		case u := <-c.queue:
			c.take(u)
			continue
		default:
		}
		break
	}
	if !c.expects() {
		return
	}
	late := time.NewTimer(min(c.took/2, patience))
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

// take adds a unit to the batch unless its caller has withdrawn it.
func (c *committer) take(u *unit) {
	if u.place.CompareAndSwap(queued, taken) {
		c.batch = append(c.batch, u)
		c.urgent = c.urgent || u.work != nil
	}
}

// expects reports whether company is worth waiting for.
func (c *committer) expects() bool {
	return !c.urgent && len(c.batch) > 0 && len(c.batch) < c.shared
}
