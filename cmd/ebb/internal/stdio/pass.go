//go:build linux

package stdio

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// left is how long something may be silent when the box is over before nothing is expected
// any more: what the box has written is there by then.
const left = time.Second

// outputs are what is passed on out of a box.
type outputs struct {
	from    []*os.File
	over    atomic.Bool
	passing sync.WaitGroup
}

// pass copies until nobody can write any more, or nobody wants to read: who writes learns that.
func (o *outputs) pass(to, from *os.File) {
	o.from = append(o.from, from)
	o.passing.Go(func() {
		defer from.Close()
		part := make([]byte, 32<<10)
		for {
			if o.over.Load() {
				_ = from.SetReadDeadline(time.Now().Add(left))
			}
			n, err := from.Read(part)
			if _, werr := to.Write(part[:n]); err != nil || werr != nil {
				return
			}
		}
	})
}

// end waits until everything is passed on. An end that somebody has carried out of the box
// holds up nothing.
func (o *outputs) end() {
	o.over.Store(true)
	for _, f := range o.from {
		_ = f.SetReadDeadline(time.Now().Add(left)) // it may be closed
	}
	o.passing.Wait()
}
