package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ErrNone is wrapped by the error of a Kind that cannot create a sandbox on
// this machine.
var ErrNone = errors.New("no sandbox can be created on this machine")

// ErrCommand is wrapped by the error of a command that could not be started in
// its sandbox.
var ErrCommand = errors.New("CMD could not be started")

// CommandError is the error of a command that could not be started. It wraps
// ErrCommand.
type CommandError struct {
	Code int // of a shell in the same case: 127 not found, 126 not executable; 0 = another cause
	Err  error
}

// NotStarted returns the error of a command whose program could not be found or
// executed.
func NotStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &CommandError{127, err}
	}
	return &CommandError{126, err}
}

// Error implements error.
func (e *CommandError) Error() string { return ErrCommand.Error() + ": " + e.Err.Error() }

// Unwrap implements errors.Is.
func (e *CommandError) Unwrap() []error { return []error{ErrCommand, e.Err} }

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
	// Ready is called once, when the sandbox has its namespaces and before Argv is
	// started, possibly in another goroutine than Start's. Files may not be mounted
	// yet, and the sandbox may already have ended, so Identity.PID may by then
	// belong to another process. Start returns only after Ready has returned, and an
	// error of Ready ends the sandbox. Ready may be nil.
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
	// this process ends, for any reason, its sandboxes end too.
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

// Code is the exit code of a command as a shell reports it: its own, or 128
// plus the number of the signal that ended it.
func Code(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// Paths and names in a sandbox.
const (
	WorkDir = "/work"         // the work directory
	Home    = "/home/sandbox" // empty at the start, and removed with the sandbox
	Dir     = "/run/ebb"      // files and sockets of the runner
	Self    = Dir + "/ebb"    // this binary
	User    = "sandbox"       // the user's name in /etc/passwd
	Search  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + Dir
)

// Bundle is the file in which programs look for trusted CAs.
const Bundle = "/etc/ssl/certs/ca-certificates.crt"

// Status is a report of the first process of a sandbox: that it waits for its
// release, that the command runs, or that the command has ended. Each report is
// one line of JSON on a descriptor that the kind passes to it.
type Status struct {
	Waiting bool   `json:"waiting,omitempty"`
	Running bool   `json:"running,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	Code    int    `json:"code,omitempty"`  // exit code, as returned by Code; with Error: CommandError.Code
	Error   string `json:"error,omitempty"` // why the command could not be started
}

// Etc returns the sandbox's own files of /etc, which contain neither users nor
// hosts of the machine.
func Etc(s Spec) map[string][]byte {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if s.User != nil {
		uid, gid = s.User.UID, s.User.GID
	}
	hosts := []byte("127.0.0.1 localhost " + User + "\n::1 localhost\n")
	for _, d := range s.Direct {
		hosts = fmt.Appendf(hosts, "%s %s\n", d.Address, d.Name)
	}
	files := map[string][]byte{
		"/etc/passwd":        fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%[1]s:x:%[2]d:%[3]d:%[1]s:%[4]s:/bin/sh\n", User, uid, gid, Home),
		"/etc/group":         fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", User, gid),
		"/etc/hosts":         hosts,
		"/etc/resolv.conf":   []byte("# There is no name server: the proxy resolves names.\n"),
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"),
	}
	maps.Copy(files, s.Files)
	return files
}

// ProxyPort is the port on the sandbox's loopback that leads to the egress
// proxy.
const ProxyPort = 3128

// AWSPort is the port on the sandbox's loopback of the container credentials
// endpoint for AWS clients.
const AWSPort = 3129

// itself are the names and addresses of the sandbox's own loopback; [::1] is
// the spelling of Python's urllib. The names of Direct also resolve to loopback
// but are not in the list, because programs that use the proxy reach those
// hosts through it.
const itself = "localhost,127.0.0.1,::1,[::1]"

// Bootstrap returns the variables by which tools find the egress proxy and
// trust the CA in Bundle. Every host but the sandbox's own loopback goes
// through the proxy, because there is no other route.
func Bootstrap() []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	var env []string
	// curl reads http_proxy only in lower case, other tools only in upper case.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "npm_config_https_proxy", "CARGO_HTTP_PROXY"} {
		env = append(env, name+"="+proxy)
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "AWS_CA_BUNDLE",
		"CARGO_HTTP_CAINFO", "DENO_CERT", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		env = append(env, name+"="+Bundle)
	}
	return append(env,
		"NO_PROXY="+itself, "no_proxy="+itself, "NODE_USE_ENV_PROXY=1", "AWS_EC2_METADATA_DISABLED=true", "GIT_TERMINAL_PROMPT=0",
		"CLOUDSDK_PROXY_TYPE=http", "CLOUDSDK_PROXY_ADDRESS=127.0.0.1", "CLOUDSDK_PROXY_PORT="+strconv.Itoa(ProxyPort))
}
