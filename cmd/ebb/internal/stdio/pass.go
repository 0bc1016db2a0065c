//go:build linux

package stdio

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// left is how long end waits for further output after the sandbox has ended.
// The output that the sandbox has written is available by then.
const left = time.Second

// outputs are the output streams of a sandbox that are copied to the user's.
type outputs struct {
	from    []*os.File
	over    atomic.Bool
	passing sync.WaitGroup
}

// pass copies until every writer has closed the stream, or the user's stream is
// closed: the pipe is then closed, so that the writer gets an error.
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

// end waits until all output is copied. A descriptor that a process outside of
// the sandbox still has open does not delay it for longer than left.
func (o *outputs) end() {
	o.over.Store(true)
	for _, f := range o.from {
		_ = f.SetReadDeadline(time.Now().Add(left)) // the file may be closed
	}
	o.passing.Wait()
}
