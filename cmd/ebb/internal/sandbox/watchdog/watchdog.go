//go:build linux

package watchdog

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// patience is how long the process may take to start.
const patience = time.Minute

// Watchdog is the watchdog process, as the runner controls it.
type Watchdog struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts self, which has the command shim, as the watchdog of the process
// behind pidfd, and returns when it watches. lost is called when the watchdog
// has ended; before Close that leaves the sandbox without one. The open file
// self is executed, not its path, because another sandbox may be able to write
// at that path.
func Start(self, pidfd *os.File, lost func()) (*Watchdog, error) {
	// Between fork and exec the child's descriptors are renumbered, which may
	// overwrite any number. So the program is passed as a descriptor of its own
	// in ExtraFiles; a number chosen here could refer to another file when it is
	// executed.
	cmd := exec.Command("/proc/self/fd/"+strconv.Itoa(program), "shim", "--watchdog")
	cmd.Args[0] = self.Name()
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{watched - 3: pidfd, program - 3: self}
	// A session of its own, so that it gets neither signals to the runner's
	// process group nor keys of its terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Nothing is written to its input. The write end is closed when this process
	// ends, and no other child process inherits it (os.Pipe, O_CLOEXEC).
	_, err1 := cmd.StdinPipe()
	up, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of the sandbox: %w", err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	n, err := up.Read(make([]byte, 1))
	late.Stop()
	if n != 1 {
		_ = cmd.Process.Kill()
		return nil, errors.Join(errors.New("the watchdog of the sandbox did not start within 1m0s"), err, cmd.Wait())
	}
	w := &Watchdog{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		_ = cmd.Wait()
		lost()
	}()
	return w, nil
}

// Close kills the watchdog and waits until it has ended. The sandbox is no
// longer watched.
func (w *Watchdog) Close() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}
