package box

import (
	"cmp"
	"errors"
	"os"
)

// ErrNone is wrapped by the error of a Kind that cannot make a box on this machine.
var ErrNone = errors.New("no box can be made here")

// ErrCommand is wrapped by the error of a command that could not be run in its box.
var ErrCommand = errors.New("CMD could not be run")

// ErrPlace is wrapped by the error of a place of the machine that no box may have.
var ErrPlace = errors.New("no box may have this")

// Spec is what runs in a box.
type Spec struct {
	Argv []string
	// Env is all of the environment: nothing of this process's is added.
	Env []string
	// Work is a directory of the machine that is written to as WorkDir.
	Work string
	// Fixed are places of Work that are mounted over it, those that hold others first.
	Fixed []Fixed
	// Read are places of the machine that are read at their own paths, beside its programs.
	Read []string
	// Files are small files by their paths in the box, read-only.
	Files map[string][]byte
	// Sockets are directories of the machine with a socket in each, held open (OpenSocketDir), by
	// their names below Dir.
	Sockets map[string]*os.File
	// Private are places of the machine that no box may have: neither Work nor any of Read is one
	// of them, or in one, or holds one.
	Private []string
	// Ports are TCP ports of the box's loopback that lead to sockets, by their paths in the box.
	Ports map[int]string
	// Direct are hosts whose names lead to Tunnel.
	Direct []Direct
	// Standard input, output and error. TTY: the input is a terminal, and only the box's.
	Stdin, Stdout, Stderr *os.File
	TTY                   bool
	// User is who the box is to the machine; nil = who this process is.
	User   *Owner
	Limits Limits
	// Keep is a directory of this user's alone, for what the kind keeps while the box is there.
	Keep string
	// Cgroup is the directory of a cgroup (version 2) in which all of the box begins, and stays;
	// nil = this process's own, or that of a kind which makes one by itself (docker).
	Cgroup *os.File
	// Ready is called when the kernel knows the box, before anything of Argv runs. An error ends
	// the box. nil = nobody wants to know.
	Ready func(Identity) error
}

// Fixed is a file or directory of the work directory that cannot be renamed or removed in the box, nor be
// written to unless Write says so.
type Fixed struct {
	Path  string // in the work directory, without symbolic links
	Write bool
}

// Owner is a user and a group of the machine.
type Owner struct{ UID, GID uint32 }

// Limits of all that is in a box. A zero is a default (OrDefault).
type Limits struct {
	Processes uint64 // processes and threads
	Files     uint64 // open ones, of each process
	Temporary uint64 // bytes in memory that home and temporary directories may have, each
	Memory    uint64 // bytes, of a kind that has others bound it; 0 = no bound
	CPU       uint64 // thousandths of a processor, in the same way; 0 = all
}

// OrDefault is l with what a kind has where nobody says otherwise.
func (l Limits) OrDefault() Limits {
	l.Processes = cmp.Or(l.Processes, 1024)
	l.Files = cmp.Or(l.Files, 4096)
	l.Temporary = cmp.Or(l.Temporary, 1<<30)
	return l
}

// Identity is what the kernel calls a box. The zero value is no box.
type Identity struct {
	PID   int    // of its first process, as this process sees it
	NetNS uint64 // inode of its network namespace
	PIDNS uint64 // inode of its process namespace
}

// Kind makes boxes.
type Kind interface {
	// Start starts one. An error that wraps ErrNone says that this machine makes none of this
	// kind; after any error nothing of it runs. Whatever happens to this process, its boxes end
	// with it.
	Start(s Spec) (Running, error)
}

// Running is one box. Its methods may be called at any time, by several goroutines.
type Running interface {
	// Signal sends a signal to the command. One that comes before it runs is kept for it.
	Signal(sig os.Signal) error
	// Kill ends all of the box at once.
	Kill()
	// Wait returns when nothing of the box runs any more, with the command's code (Code). It is
	// called once.
	Wait() (code int, err error)
}
