package sqlstoretest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// Server is a PostgreSQL of the test's own, to be killed or frozen. It accepts every
// connection to its port on the loopback interface. It needs Linux, because it finds the
// child processes in /proc.
type Server struct {
	URL string

	t    testing.TB
	dir  string
	port int
	as   *syscall.Credential // PostgreSQL refuses to run as root
	cmd  *exec.Cmd
}

// NewServer starts a server with its data below dir, for example on a small file system.
func NewServer(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{t: t, dir: filepath.Join(dir, "postgres"), port: counterpart.FreePort(t)}
	s.URL = fmt.Sprintf("postgres://ebb@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		s.own()
	}
	// Segments of 1 MiB: a log with segments of 16 MiB alone would fill a small file
	// system.
	if text, err := s.command("initdb", "-D", s.dir, "-U", "ebb", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--wal-segsize=1", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, text)
	}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// own gives the directory to the user postgres, which must be able to traverse its
// parents.
func (s *Server) own() {
	u, err := user.Lookup("postgres")
	if err != nil {
		counterpart.Missing(s.t, "postgres", "make the user postgres: "+err.Error())
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	err = errors.Join(uerr, gerr, os.Chown(s.dir, int(uid), int(gid)))
	for at := filepath.Dir(s.dir); err == nil && at != os.TempDir() && len(at) > 1; at = filepath.Dir(at) {
		var info fs.FileInfo
		if info, err = os.Stat(at); err == nil {
			err = os.Chmod(at, info.Mode()|0o111)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(counterpart.Program(s.t, name), args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}, &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Start runs the server, also after Kill, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.CreateTemp(s.t.TempDir(), "postgres-*.log")
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = s.command("postgres", "-D", s.dir, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "shared_buffers=16MB",
		"-c", "max_wal_size=8MB", "-c", "fsync=off") // the machine stays up, so the writes of a killed server survive
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := storetest.PostgresDo(s.URL, "SELECT 1")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			s.t.Fatalf("PostgreSQL does not answer: %v\n%s", err, text)
		}
	}
}

// Kill sends SIGKILL to the server and all its processes.
func (s *Server) Kill() {
	if s.cmd == nil {
		return // another process may have its number by now
	}
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // so that it starts no further processes
	children := s.children()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	// The next server refuses the data while one of these processes exists.
	for end := time.Now().Add(2 * time.Minute); len(children) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, state := statOf(children[0]); state == "" || state == "Z" {
			children = children[1:]
		}
	}
	_ = os.Remove(filepath.Join(s.dir, "postmaster.pid"))
	s.cmd = nil
}

// Signal sends a signal to all its processes: SIGSTOP makes the server hang.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	for _, pid := range s.children() {
		_ = syscall.Kill(pid, sig)
	}
}

// children returns the server's processes. Each has a session of its own, so no process
// group holds them.
func (s *Server) children() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if parent, _ := statOf(pid); parent == s.cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// statOf returns the parent and the state of a process (proc(5)); the state is "" if
// there is none.
func statOf(pid int) (parent int, state string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return 0, ""
	}
	parent, _ = strconv.Atoi(fields[1])
	return parent, fields[0]
}
