//go:build linux

package stdio

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := termios(f)
	return err == nil
}

// pair is a pseudo-terminal between the user's terminal and a sandbox.
type pair struct {
	inner, outer *os.File // the sandbox's side, and this process's
	in, out      *os.File // the user's terminal; in: nil = no input is forwarded
	before       *unix.Termios
}

// openPair opens a pseudo-terminal with the size and settings of out, the
// terminal to which the output of the sandbox is copied.
func openPair(in, out *os.File) (*pair, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	p := &pair{outer: os.NewFile(uintptr(fd), "ptmx"), in: in, out: out}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		p.inner, err = os.OpenFile("/dev/pts/"+strconv.FormatUint(uint64(n), 10), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		p.before, err = termios(out)
	}
	if err == nil {
		mine := *p.before
		if in == nil {
			mine.Oflag &^= unix.OPOST // the user's terminal, which is not raw, does it
		}
		err = control(p.inner, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, &mine) })
	}
	if err != nil {
		_ = p.outer.Close()
		if p.inner != nil {
			_ = p.inner.Close()
		}
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	p.resize()
	return p, nil
}

// resize sets the size of the sandbox's terminal to that of the user's.
func (p *pair) resize() {
	_ = control(p.out, func(from int) error {
		size, err := unix.IoctlGetWinsize(from, unix.TIOCGWINSZ)
		if err != nil {
			return err
		}
		return control(p.outer, func(to int) error { return unix.IoctlSetWinsize(to, unix.TIOCSWINSZ, size) })
	})
}

// join forwards input until this process ends, because a blocked read of a
// terminal cannot be interrupted. The user's terminal becomes raw, so that only
// the sandbox's terminal interprets keys.
func (p *pair) join() error {
	raw := *p.before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := control(p.in, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, &raw) }); err != nil {
		return fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	go func() { _, _ = io.Copy(p.outer, p.in) }()
	return nil
}

// close restores the settings of the user's terminal.
func (p *pair) close() {
	if p.in != nil {
		_ = control(p.in, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, p.before) })
	}
	_ = p.outer.Close()
}

func termios(f *os.File) (t *unix.Termios, err error) {
	err = control(f, func(fd int) error {
		t, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return t, err
}

// control calls do with the descriptor of a file. It does not use Fd, which
// would set the file to blocking mode.
func control(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := c.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}

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
