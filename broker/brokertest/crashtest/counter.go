package crashtest

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// counter numbers the steps, writes each to a file before it begins, and kills the
// process at the step kill.
type counter struct {
	log   *os.File
	kill  int // 0 = none
	after bool

	mu    sync.Mutex
	armed bool
	n     int
}

func (c *counter) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
}

// step does one step. The line in the file survives the process.
func (c *counter) step(name string, do func()) {
	c.mu.Lock()
	n := 0
	if c.armed {
		c.n++
		n = c.n
		_, _ = fmt.Fprintln(c.log, name)
	}
	c.mu.Unlock()
	hit := n > 0 && n == c.kill
	if hit && !c.after {
		die()
	}
	do()
	if hit {
		die()
	}
}

// die kills the process at once: without deferred calls, flushes, or closed connections.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
