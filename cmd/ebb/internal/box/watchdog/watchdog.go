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

// patience is how long the process may take to come up.
const patience = time.Minute

// Watchdog is the process, as the runner holds it.
type Watchdog struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts self, which has the command shim, as the watchdog of the process behind pidfd, and
// returns when it watches. lost is called when it has ended: before Close the box has none then.
// What is executed is the file that self is, whatever has its name by now: that may be where another
// box writes.
func Start(self, pidfd *os.File, lost func()) (*Watchdog, error) {
	// Between fork and exec the process has its descriptors put in order, over whatever has the numbers
	// that this takes. So the program is one of those that it is given: a number of its own choice could be
	// another file's by the time that it is executed.
	cmd := exec.Command("/proc/self/fd/"+strconv.Itoa(program), "shim", "--watchdog")
	cmd.Args[0] = self.Name()
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{watched - 3: pidfd, program - 3: self}
	// What is sent to the runner's group, or typed at its terminal, is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Nothing is ever written to its input. The other end is closed when this process ends, and no
	// program that this process starts has it (os.Pipe, O_CLOEXEC).
	_, err1 := cmd.StdinPipe()
	up, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the watchdog of the box: %w", err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	n, err := up.Read(make([]byte, 1))
	late.Stop()
	if n != 1 {
		_ = cmd.Process.Kill()
		return nil, errors.Join(errors.New("the watchdog of the box does not start"), err, cmd.Wait())
	}
	w := &Watchdog{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		_ = cmd.Wait()
		lost()
	}()
	return w, nil
}

// Close ends it, and returns when it is over. The box is no longer watched.
func (w *Watchdog) Close() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}
