//go:build linux

package pty

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Is reports whether f is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Pair is a pseudo-terminal between a person's terminal and a box.
type Pair struct {
	Inner *os.File // the box's side; to be closed here when the box has it

	outer   *os.File
	in, out *os.File // the person's terminal
	before  *unix.Termios
	drained sync.WaitGroup
}

// Open makes a pair of the size and with the settings of in. What comes from the box goes to
// out.
func Open(in, out *os.File) (*Pair, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("a terminal for the box: %w", err)
	}
	p := &Pair{outer: os.NewFile(uintptr(fd), "ptmx"), in: in, out: out}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		p.Inner, err = os.OpenFile("/dev/pts/"+strconv.FormatUint(uint64(n), 10), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		p.before, err = unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	}
	if err == nil {
		err = unix.IoctlSetTermios(int(p.Inner.Fd()), unix.TCSETS, p.before)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("a terminal for the box: %w", err)
	}
	p.Resize()
	return p, nil
}

// Resize gives the box's terminal the size of the person's.
func (p *Pair) Resize() {
	if size, err := unix.IoctlGetWinsize(int(p.in.Fd()), unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(p.outer.Fd()), unix.TIOCSWINSZ, size)
	}
}

// Join passes on what is typed and what is written, until Close. What a key means is the
// box's terminal's to say, so the person's says nothing about it.
func (p *Pair) Join() error {
	raw := *p.before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(p.in.Fd()), unix.TCSETS, &raw); err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	_ = p.Inner.Close()
	go func() { _, _ = io.Copy(p.outer, p.in) }() // until this process ends: nobody can wake who reads a terminal
	// Reading fails when no process of the box has the terminal any more.
	p.drained.Go(func() { _, _ = io.Copy(p.out, p.outer) })
	return nil
}

// Close gives the person's terminal back as it was. The box is over by then: what it has
// written is out first.
func (p *Pair) Close() {
	p.drained.Wait()
	if p.before != nil {
		_ = unix.IoctlSetTermios(int(p.in.Fd()), unix.TCSETS, p.before)
	}
	if p.Inner != nil {
		_ = p.Inner.Close()
	}
	_ = p.outer.Close()
}
