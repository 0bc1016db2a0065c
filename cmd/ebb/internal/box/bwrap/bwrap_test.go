//go:build linux

package bwrap_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ebb/broker/brokertest/counterpart"
	"ebb/cmd/ebb/internal/box"
)

// lines are what try said, by the attempt.
func lines(out string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(out) {
		what, how, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[what] = how
	}
	return said
}

// try runs attempts in the box.
func (b *bed) try(words ...string) map[string]string {
	b.t.Helper()
	code, out, errs := b.start(append([]string{box.Self, "try"}, words...)...).wait()
	if code != 0 {
		b.t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	return lines(out)
}

// TestNoWayOut: what listens on the machine answers the machine and not the box; what the
// runner puts into the box answers the box.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	listen := func(network, address string) (net.Listener, string) {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}
		}()
		return l, l.Addr().String()
	}
	_, loopback := listen("tcp", "127.0.0.1:0")
	_, all := listen("tcp", "0.0.0.0:0")
	_, port, _ := net.SplitHostPort(all)
	outside := filepath.Join(t.TempDir(), "agent")
	listen("unix", outside)
	abstract := fmt.Sprintf("@ebb-test-%d", os.Getpid())
	listen("unix", abstract)
	given := filepath.Join(t.TempDir(), "given")
	if err := os.Mkdir(given, 0o711); err != nil {
		t.Fatal(err)
	}
	listen("unix", filepath.Join(given, "out"))
	if err := os.Chmod(filepath.Join(given, "out"), 0o666); err != nil {
		t.Fatal(err)
	}
	b.spec.Sockets, b.spec.Ports = map[string]string{"given": given}, map[int]string{3128: box.Dir + "/given/out"}

	refused := []string{"tcp=" + loopback, "unix=" + outside, "unix=" + abstract, "tcp=169.254.169.254:80", "tcp=[fd00:ec2::254]:80", "tcp=1.1.1.1:443", "udp=1.1.1.1:53", "lookup=example.com"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, is := a.(*net.IPNet); is && ip.IP.IsGlobalUnicast() {
			refused = append(refused, "tcp="+net.JoinHostPort(ip.IP.String(), port))
		}
	}
	for _, word := range []string{"tcp=" + loopback, "unix=" + outside, "unix=" + abstract} {
		what, where, _ := strings.Cut(word, "=")
		if err := attempt(what, where); err != nil {
			t.Fatalf("outside of the box %s: %v", word, err)
		}
	}
	allowed := []string{"unix=" + box.Dir + "/given/out", "tcp=127.0.0.1:3128"}
	said := b.try(append(refused, allowed...)...)
	for _, word := range refused {
		if said[word] == "<nil>" || said[word] == "" {
			t.Errorf("%s: %q", word, said[word])
		}
	}
	for _, word := range allowed {
		if said[word] != "<nil>" {
			t.Errorf("%s: %q", word, said[word])
		}
	}
}

// TestNothingOfTheMachine looks for files, processes, descriptors and variables that are
// none of the box's.
func TestNothingOfTheMachine(t *testing.T) {
	b := newBed(t)
	t.Setenv("CANARY", "canary-in-the-environment")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("canary-in-a-file"), 0o644); err != nil {
		t.Fatal(err)
	}
	// What the runner's own parent has left open, and forgot to close for others.
	leak, err := syscall.Open(secret, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	b.spec.Files = map[string][]byte{box.Bundle: []byte("a bundle\n")}
	b.spec.Env = append(b.spec.Env, "GIVEN=as told")
	said := b.try("read="+secret, "read=/etc/shadow", "list=/root", "list=/var/lib", "list=/sys/kernel", "list=/proc/1/fd", "read=/proc/1/environ", "read=/proc/1/mem", "ptrace-shim",
		"write=/usr/x", "write=/etc/x", "write=/x", "write="+box.Dir+"/x", "write="+box.Self, "write="+box.Bundle, "write=/proc/sys/kernel/core_pattern", "userns",
		"write="+box.WorkDir+"/made", "write="+box.Home+"/made", "write=/tmp/made", "read="+box.Bundle, "read=/usr/bin/env")
	for word, how := range said {
		mine := strings.HasSuffix(word, "/made") || word == "read="+box.Bundle || word == "read=/usr/bin/env"
		if mine != (how == "<nil>") {
			t.Errorf("%s: %s", word, how)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.spec.Work, "made")); err != nil || string(text) != "x" {
		t.Errorf("the work directory: %q, %v", text, err)
	}
	out := b.sh(`env; echo "fds $(ls /proc/self/fd | tr '\n' ' ')"; for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done; cat /proc/self/status; cat ` + box.Bundle + `; id -un; hostname`)
	for _, want := range []string{"GIVEN=as told", "fds 0 1 2 3 \n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "a bundle", "\nbox\nbox\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "canary") || strings.Contains(out, "go test") || strings.Contains(out, "/sbin/init") {
		t.Errorf("the box sees\n%s", out)
	}
}

// TestFilter: each refused call beside one of its kind that is let through.
func TestFilter(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const eperm, family = "operation not permitted", "address family not supported by protocol"
	want := map[string]string{
		"io_uring_setup": eperm, "keyctl": eperm, "add_key": eperm, "userfaultfd": eperm, "bpf": eperm, "perf_event_open": eperm, "mount": eperm, "setns": eperm, "open_by_handle_at": eperm,
		"kexec_load": eperm, "init_module": eperm, "tiocsti": eperm, "tiocsti-high": eperm, "tiocgwinsz": "inappropriate ioctl for device", "getpid": "<nil>",
		"socket=vsock": family, "socket=packet": family, "socket=audit": family, "socket=alg": family, "socket=xdp": family,
		"socket=unix": "<nil>", "socket=inet": "<nil>", "socket=inet6": "<nil>", "socket=route": "<nil>",
	}
	var words []string
	for word := range want {
		words = append(words, word)
	}
	for word, how := range b.try(words...) {
		if how != want[word] {
			t.Errorf("%s: %s, want %s", word, how, want[word])
		}
	}
	if code, out, _ := b.start(box.Self, "try", "x32").wait(); code != 128+int(unix.SIGSYS) {
		t.Errorf("a call of another kind: exit code %d, %s", code, out)
	}
}

// TestEnds: the code of the command is the box's, whatever it is.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "exec 1>&-; exit 3": 3} {
		if code, out, errs := b.start("sh", "-c", script).wait(); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", script, code, want, out, errs)
		}
	}
	for _, program := range []string{"no-such-program", box.WorkDir} {
		r := b.start(program)
		if _, err := r.Wait(); !errors.Is(err, box.ErrCommand) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestSignals: the command gets those that are sent to the box, also what comes before it
// runs. Nobody in the box can end the first process.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start("sh", "-c", `trap 'echo usr1' USR1; trap 'echo term; exit 42' TERM; kill -KILL 1; kill -TERM 1; echo up >up; while :; do sleep 0.05; done`)
	_ = r.Signal(unix.SIGUSR1) // kept until there is a command, which dies of it when it has no handler yet
	until(t, "up, or over", func() bool {
		_, err := os.Stat(filepath.Join(b.spec.Work, "up"))
		return err == nil || r.Signal(unix.SIGCONT) != nil
	})
	_ = r.Signal(unix.SIGTERM)
	code, out, _ := r.wait()
	if code != 42 && code != 128+int(unix.SIGUSR1) || code == 42 && !strings.Contains(out, "term") {
		t.Errorf("exit code %d, %q", code, out)
	}
	r = b.start("sleep", "600")
	r.Kill()
	if code, _, _ := r.wait(); code != 137 {
		t.Errorf("killed: exit code %d", code)
	}
}

// TestOrphans: what loses its parent is buried, and what is left when the command ends dies.
func TestOrphans(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out := b.sh(`i=0; while [ $i -lt 20 ]; do (sh -c 'sleep 0 & exit' &); i=$((i+1)); done; sleep 0.5; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l`)
	if strings.TrimSpace(out) != "0" {
		t.Errorf("%s are not buried", strings.TrimSpace(out))
	}
	word := fmt.Sprintf("603.%d", os.Getpid())
	b.sh(`setsid sleep ` + word + ` & (setsid nohup setsid sleep ` + word + ` >/dev/null 2>&1 &); sleep 0.2`)
	if left := processes(t, word); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

// TestBomb: a box cannot start more than it may, and the machine's other users can.
func TestBomb(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.spec.Limits.Processes = 64
	how := b.try("spawn")["spawn"]
	m := regexp.MustCompile(`^after (\d+): .*resource temporarily unavailable`).FindStringSubmatch(how)
	if m == nil {
		t.Fatalf("spawn: %s", how)
	}
	if n, _ := strconv.Atoi(m[1]); n < 10 || n >= 64 {
		t.Errorf("%d processes of 64", n)
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Errorf("the machine: %v", err)
	}
}

// TestMemory: home and temporary directories end where they should.
func TestMemory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.spec.Limits.Temporary = 1 << 20
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", box.Home} {
		if out := b.sh("head -c 4000000 /dev/zero >" + dir + "/x 2>/dev/null; stat -c %s " + dir + "/x"); strings.TrimSpace(out) != "1048576" {
			t.Errorf("%s holds %s", dir, out)
		}
	}
}

// TestReady: who asks for it knows the box's namespaces before anything of it runs, and can
// say no.
func TestReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var known box.Identity
	b.spec.Ready = func(id box.Identity) error {
		known = id
		if seen, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", id.PID)); err != nil || seen != fmt.Sprintf("net:[%d]", id.NetNS) {
			t.Errorf("the machine sees %s, %v", seen, err)
		}
		return nil
	}
	out := b.sh("readlink /proc/self/ns/net /proc/self/ns/pid")
	if want := fmt.Sprintf("net:[%d]\npid:[%d]\n", known.NetNS, known.PIDNS); out != want {
		t.Errorf("the box is %s, told %s", out, want)
	}
	no := errors.New("no")
	b.spec.Argv, b.spec.Ready = []string{"touch", box.WorkDir + "/ran"}, func(box.Identity) error { return no }
	if _, err := b.kind.Start(b.spec); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.spec.Work, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
}

// TestKilledRunner: nothing of a box outlives its runner, whatever it has done to hide.
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	word := strconv.Itoa(os.Getpid())
	args := []string{"runner", word, b.spec.Work}
	if b.spec.User != nil {
		args = append(args, strconv.Itoa(int(b.spec.User.UID)))
	}
	cmd := exec.Command(b.kind.Self, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if text := make([]byte, 3); true {
		if _, err := io.ReadFull(out, text); err != nil || string(text) != "up\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	for _, n := range []string{"600.", "601.", "602."} {
		until(t, "sleep "+n, func() bool { return len(processes(t, n+word)) > 0 })
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "everything is gone", func() bool {
		return len(processes(t, "600."+word))+len(processes(t, "601."+word))+len(processes(t, "602."+word)) == 0
	})
}

// TestWork: a directory that holds more than work is given to no box.
func TestWork(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	b.spec.Argv = []string{"true"}
	for _, dir := range []string{"/", "/home", "/tmp", "/etc", "/usr", "/var", "/run", home, link, filepath.Dir(home)} {
		b.spec.Work = dir
		if _, err := b.kind.Start(b.spec); !errors.Is(err, box.ErrWork) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestNoBox: where none can be made, nothing runs.
func TestNoBox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.spec.Argv = []string{"touch", box.WorkDir + "/ran"}
	stderr, errs, done := reader(t)
	b.spec.Stderr = stderr
	for _, program := range []string{"/no/such/bwrap", "/bin/false"} {
		b.kind.Program = program
		if _, err := b.kind.Start(b.spec); !errors.Is(err, box.ErrNone) {
			t.Errorf("%s: %v", program, err)
		}
	}
	done()
	<-errs
	if b.spec.User != nil {
		b.kind.Program, b.spec.User = counterpart.Need(t, "EBB_TEST_BWRAP"), nil
		if _, err := b.kind.Start(b.spec); !errors.Is(err, box.ErrNone) {
			t.Errorf("root as root: %v", err)
		}
	}
}
