package box

import (
	"cmp"
	"errors"
	"os"
)

// ErrNone is wrapped by the error of a Kind that cannot create a sandbox on
// this machine.
var ErrNone = errors.New("no sandbox can be created on this machine")

// ErrCommand is wrapped by the error of a command that could not be started in
// its sandbox.
var ErrCommand = errors.New("CMD could not be started")

// ErrPlace is wrapped by the error of a path of the machine that no sandbox may
// use.
var ErrPlace = errors.New("no sandbox may have this path")

// Spec describes a sandbox and the command in it.
type Spec struct {
	Argv []string
	// Env is the whole environment: no variable of this process is added.
	Env []string
	// Work is a directory of the machine that is mounted writable at WorkDir.
	Work string
	// Fixed are paths of Work that are mounted over it, parents first.
	Fixed []Fixed
	// Read are paths of the machine that are mounted read-only at the same path,
	// beside its programs.
	Read []string
	// Files are small read-only files by their paths in the sandbox.
	Files map[string][]byte
	// Sockets are directories of the machine with one socket each, held open
	// (OpenSocketDir), by their names below Dir.
	Sockets map[string]*os.File
	// Private are paths of the machine that no sandbox may have: neither Work nor
	// a path of Read may equal one, be inside one, or contain one.
	Private []string
	// Ports are TCP ports of the sandbox's loopback that lead to sockets, by
	// their paths in the sandbox.
	Ports map[int]string
	// Direct are hosts whose names resolve to loopback and lead to Tunnel.
	Direct []Direct
	// Standard input, output and error. TTY: the input is a terminal of the
	// sandbox alone.
	Stdin, Stdout, Stderr *os.File
	TTY                   bool
	// User is the user of the sandbox on the machine; nil = the user of this
	// process.
	User   *Owner
	Limits Limits
	// Keep is a directory of this user alone, for files that the kind needs while
	// the sandbox exists.
	Keep string
	// Cgroup is the directory of a version 2 cgroup in which all processes of the
	// sandbox run; nil = the cgroup of this process, or one that the kind creates
	// by itself (docker).
	Cgroup *os.File
	// Ready is called when the sandbox has its namespaces, before Argv is
	// started. An error ends the sandbox. It may be nil.
	Ready func(Identity) error
}

// Fixed is a file or directory of the work directory that cannot be renamed or
// removed in the sandbox, and can be written to only if Write is set.
type Fixed struct {
	Path  string // in the work directory, without symbolic links
	Write bool
}

// Owner is a user and a group of the machine.
type Owner struct{ UID, GID uint32 }

// Limits bound all processes of a sandbox. A zero is the default (OrDefault).
type Limits struct {
	Processes uint64 // processes and threads
	Files     uint64 // open files of each process
	Temporary uint64 // bytes of memory for the home and each temporary directory
	Memory    uint64 // bytes; 0 = no bound
	CPU       uint64 // thousandths of a processor; 0 = all
}

// OrDefault returns l with the defaults for zeros.
func (l Limits) OrDefault() Limits {
	l.Processes = cmp.Or(l.Processes, 1024)
	l.Files = cmp.Or(l.Files, 4096)
	l.Temporary = cmp.Or(l.Temporary, 1<<30)
	return l
}

// Identity identifies a sandbox in the kernel. The zero value is no sandbox.
type Identity struct {
	PID   int    // of its first process, in the PID namespace of this process
	NetNS uint64 // inode of its network namespace
	PIDNS uint64 // inode of its process namespace
}

// Kind creates sandboxes.
type Kind interface {
	// Start starts a sandbox. An error that wraps ErrNone means that this machine
	// cannot create one of this kind; after any error no process of it runs. When
	// this process ends, for whatever reason, its sandboxes end too.
	Start(s Spec) (Running, error)
}

// Running is one sandbox. Its methods may be called at any time, by several
// goroutines.
type Running interface {
	// Signal sends a signal to the command. A signal before the command runs is
	// delivered later.
	Signal(sig os.Signal) error
	// Kill kills all processes of the sandbox at once.
	Kill()
	// Wait returns when no process of the sandbox runs any more, with the
	// command's exit code (Code). It is called once.
	Wait() (code int, err error)
}
