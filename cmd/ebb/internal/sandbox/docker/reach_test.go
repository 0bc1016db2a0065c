//go:build linux

package docker_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// listen runs an echo server at an address.
func listen(t *testing.T, network, address string) string {
	t.Helper()
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
	return l.Addr().String()
}

// given is the directory of a socket that is mounted into a sandbox.
func given(t *testing.T) *os.File {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "given", "out")
	if err := os.Mkdir(filepath.Dir(socket), 0o711); err != nil {
		t.Fatal(err)
	}
	listen(t, "unix", socket)
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	dir, err := sandbox.OpenSocketDir(socket, uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// TestNoWayOut: (E26, E107, E113, E119) listeners of the machine, including the
// daemon's socket, are reachable from the machine and not from the sandbox;
// those that the runner mounts into the sandbox are.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, port, _ := net.SplitHostPort(listen(t, "tcp", "0.0.0.0:0"))
	abstract := fmt.Sprintf("@ebb-docker-%d", os.Getpid())
	listen(t, "unix", abstract)
	b.Spec.Sockets, b.Spec.Ports = map[string]*os.File{"given": given(t)}, map[int]string{80: sandbox.Dir + "/given/out"}
	refused := []string{
		"unix=" + abstract, "unix=" + strings.TrimPrefix(b.kind.Host, "unix://"), "unix=/var/run/docker.sock", "unix=" + sandbox.Dir + "/shim/socket",
		"tcp=127.0.0.1:" + port, "tcp=169.254.169.254:80", "tcp=[fd00:ec2::254]:80", "tcp=1.1.1.1:443", "udp=1.1.1.1:53", "lookup=example.com",
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, is := a.(*net.IPNet); is && ip.IP.IsGlobalUnicast() {
			refused = append(refused, "tcp="+net.JoinHostPort(ip.IP.String(), port))
		}
	}
	allowed := []string{"unix=" + sandbox.Dir + "/given/out", "tcp=127.0.0.1:80"}
	said := b.Try(append(refused, allowed...)...)
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

// TestNothingOfTheMachine (E114) looks for files, descriptors and variables
// that do not belong to the sandbox, and for data about it that the daemon
// would show to others.
func TestNothingOfTheMachine(t *testing.T) {
	b := newBed(t)
	t.Setenv("CANARY", "canary-in-the-environment")
	t.Setenv("HTTPS_PROXY", "http://canary:canary@127.0.0.1:1")
	b.Spec.Files = map[string][]byte{sandbox.Bundle: []byte("a bundle\n")}
	b.Spec.Env = append(b.Spec.Env, "GIVEN=placeholder-as-told", "GIVEN=bytes \xff")
	said := b.Try("list=/root", "list=/proc/1/fd", "read=/proc/1/environ", "read=/proc/1/mem", "ptrace-shim", "write=/bin/x", "write=/etc/x", "write=/etc/hosts", "write=/x",
		"write="+sandbox.Dir+"/x", "write="+sandbox.Dir+"/shim/x", "write="+sandbox.Self, "write="+sandbox.Bundle, "write=/proc/sys/kernel/core_pattern", "write=/sys/fs/cgroup/x", "userns",
		"write="+sandbox.WorkDir+"/made", "write="+sandbox.Home+"/made", "write=/tmp/made", "write=/var/tmp/made", "write=/dev/shm/made", "read="+sandbox.Bundle)
	for word, how := range said {
		mine := strings.HasSuffix(word, "/made") || word == "read="+sandbox.Bundle
		if mine != (how == "<nil>") && (os.Geteuid() == 0 || !strings.Contains(word, "/proc/1/") && word != "ptrace-shim") {
			t.Errorf("%s: %s", word, how)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.Spec.Work, "made")); err != nil || string(text) != "x" {
		t.Errorf("the work directory: %q, %v", text, err)
	}
	b.Spec.Keep = t.TempDir()
	r := b.Start("sh", "-c", `env; echo "fds $(ls /proc/self/fd | tr '\n' ' ')"; cat /proc/self/status; cat `+sandbox.Bundle+`; id -un; hostname; cat /etc/resolv.conf; echo >up; exec sleep 600`)
	sandboxtest.Until(t, "up", func() bool {
		_, err := os.Stat(filepath.Join(b.Spec.Work, "up"))
		return err == nil
	})
	shown := b.docker("inspect", b.docker("ps", "--all", "--quiet", "--filter", "label=ebb.sandbox.keep="+b.Spec.Keep))
	r.Kill()
	_, out, _ := r.End()
	for _, want := range []string{"GIVEN=bytes \xff\n", "fds 0 1 2 3 \n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "a bundle", "\nsandbox\nsandbox\n", "no name server"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "canary") {
		t.Errorf("the sandbox sees\n%s", out)
	}
	shown = strings.ReplaceAll(shown, "IMAGE_SAYS=canary", "") // an environment variable of the image, which is public
	for _, word := range []string{"canary", "placeholder-as-told", "bytes", "sleep 600"} {
		if strings.Contains(shown, word) {
			t.Errorf("the daemon shows %q:\n%s", word, shown)
		}
	}
}

// TestFilter: (E114, E118) each refused call, and for comparison an allowed one
// of the same kind, as with bubblewrap.
func TestFilter(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const family = "address family not supported by protocol"
	var words []string
	refused := []string{"io_uring_setup", "keyctl", "add_key", "userfaultfd", "bpf", "perf_event_open", "mount", "setns", "open_by_handle_at", "kexec_load", "init_module", "clone-newuser", "unshare-newuser", "tiocsti", "tiocsti-high"}
	families := []string{"socket=vsock", "socket=packet", "socket=audit", "socket=alg", "socket=xdp", "socket=tipc", "socketpair=tipc", "socketpair=vsock", "socketpair=audit"}
	let := []string{"getpid", "socketpair=unix", "socket=unix", "socket=inet", "socket=inet6", "socket=route"}
	words = append(append(append(words, refused...), families...), let...)
	said := b.Try(words...)
	for _, word := range refused {
		if said[word] != "operation not permitted" {
			t.Errorf("%s: %s", word, said[word])
		}
	}
	for _, word := range families {
		if said[word] != family {
			t.Errorf("%s: %s", word, said[word])
		}
	}
	for _, word := range let {
		if said[word] != "<nil>" {
			t.Errorf("%s: %s", word, said[word])
		}
	}
	if code, out, _ := b.Start(sandbox.Self, "try", "x32").End(); code != 128+int(unix.SIGSYS) {
		t.Errorf("a call of another kind: exit code %d, %s", code, out)
	}
}

// TestDirect: names of hosts resolve to addresses of loopback, with ports below
// 1024.
func TestDirect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Sockets = map[string]*os.File{"out": given(t)}
	var err error
	if b.Spec.Direct, err = sandbox.Directs([]string{"a.test:443", "b.test:22"}); err != nil {
		t.Fatal(err)
	}
	out := b.Sh("cat /etc/hosts; netstat -ltn")
	for _, want := range []string{"127.1.0.1 a.test\n", "127.1.0.2 b.test\n", "127.1.0.1:443 ", "127.1.0.2:22 "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestTerminal: the command gets the sandbox's own terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if b.Spec.Stdin, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	defer b.Spec.Stdin.Close()
	b.Spec.TTY = true
	r := b.Start("sh", "-c", "trap 'echo interrupted; exit 9' INT; test -t 0 && echo up >up; while :; do sleep 0.05; done")
	sandboxtest.Until(t, "up", func() bool {
		_, err := os.Stat(filepath.Join(b.Spec.Work, "up"))
		return err == nil
	})
	if _, err := master.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if code, out, _ := r.End(); code != 9 || out != "interrupted\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}
