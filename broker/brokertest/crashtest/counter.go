package crashtest

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// counter numbers steps, writes each down before it is done, and ends the process
// when the one that it waits for has come.
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

// step does one step. What is written to a file survives the process.
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

// die leaves no time for anything: no deferred call, no flush, no closed connection.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
