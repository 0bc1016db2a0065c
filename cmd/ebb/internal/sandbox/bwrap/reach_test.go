//go:build linux

package bwrap_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// TestNoWayOut: (E26, E107, E113) listeners of the machine are reachable from
// the machine and not from the sandbox; those that the runner mounts into the
// sandbox are.
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
	dir, err := sandbox.OpenSocketDir(filepath.Join(given, "out"), uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	b.Spec.Sockets, b.Spec.Ports = map[string]*os.File{"given": dir}, map[int]string{3128: sandbox.Dir + "/given/out"}

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
		if err := sandboxtest.Attempt(what, where); err != nil {
			t.Fatalf("outside of the sandbox %s: %v", word, err)
		}
	}
	allowed := []string{"unix=" + sandbox.Dir + "/given/out", "tcp=127.0.0.1:3128"}
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

// TestNothingOfTheMachine (E114) looks for files, processes, descriptors and
// variables that do not belong to the sandbox.
//
//ebb:invariant I6 The device directory `/dev` of a sandbox is read-only, so that a command cannot store data in it
func TestNothingOfTheMachine(t *testing.T) {
	b := newBed(t)
	t.Setenv("CANARY", "canary-in-the-environment")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("canary-in-a-file"), 0o644); err != nil {
		t.Fatal(err)
	}
	// The runner's parent has left descriptors open without close-on-exec.
	leak, err := syscall.Open(secret, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	b.Spec.Files = map[string][]byte{sandbox.Bundle: []byte("a bundle\n")}
	b.Spec.Env = append(b.Spec.Env, "GIVEN=as told")
	said := b.Try("read="+secret, "read=/etc/shadow", "list=/root", "list=/var/lib", "list=/sys/kernel", "list=/proc/1/fd", "read=/proc/1/environ", "read=/proc/1/mem", "ptrace-shim",
		"write=/usr/x", "write=/etc/x", "write=/x", "write="+sandbox.Dir+"/x", "write="+sandbox.Self, "write="+sandbox.Bundle, "write=/proc/sys/kernel/core_pattern", "write=/dev/x", "write=/dev/pts/x", "userns",
		"write=/dev/shm/made", "write="+sandbox.WorkDir+"/made", "write="+sandbox.Home+"/made", "write=/tmp/made", "read="+sandbox.Bundle, "read=/usr/bin/env")
	for word, how := range said {
		mine := strings.HasSuffix(word, "/made") || word == "read="+sandbox.Bundle || word == "read=/usr/bin/env"
		if mine != (how == "<nil>") {
			t.Errorf("%s: %s", word, how)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.Spec.Work, "made")); err != nil || string(text) != "x" {
		t.Errorf("the work directory: %q, %v", text, err)
	}
	out := b.Sh(`env; echo "fds $(ls /proc/self/fd | tr '\n' ' ')"; for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done; cat /proc/self/status; cat ` + sandbox.Bundle + `; id -un; hostname`)
	for _, want := range []string{"GIVEN=as told", "fds 0 1 2 3 \n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "a bundle", "\nsandbox\nsandbox\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "canary") || strings.Contains(out, "go test") || strings.Contains(out, "/sbin/init") {
		t.Errorf("the sandbox sees\n%s", out)
	}
}

// TestFilter: (E114, E118) each refused call, and for comparison an allowed one
// of the same kind.
//
//ebb:invariant I6 The system call filter allows a sandbox only the calls that common tools need
//ebb:invariant I6 A sandbox cannot create sockets or socket pairs of families that a network namespace does not isolate
func TestFilter(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	eperm, enosys, family := unix.EPERM.Error(), unix.ENOSYS.Error(), unix.EAFNOSUPPORT.Error()
	want := map[string]string{
		"io_uring_setup": eperm, "keyctl": eperm, "add_key": eperm, "userfaultfd": eperm, "bpf": eperm, "perf_event_open": eperm, "mount": eperm, "setns": eperm, "open_by_handle_at": eperm,
		"clone-newuser": eperm, "clone-newnet": eperm, "unshare-newuser": eperm, "unshare-newtime": eperm, "unshare-files": "<nil>", "personality": eperm, "personality-get": "<nil>", "chroot": eperm,
		"clone3": enosys, "lookup_dcookie": enosys, "set_mempolicy": enosys, "kcmp": enosys, "memfd_secret": enosys, "no-such-call": enosys,
		"kexec_load": eperm, "init_module": eperm, "tiocsti": eperm, "tiocsti-high": eperm, "tiocgwinsz": "inappropriate ioctl for device", "getpid": "<nil>",
		"socket=vsock": family, "socket=packet": family, "socket=audit": family, "socket=alg": family, "socket=xdp": family,
		"socket=tipc": family, "socketpair=tipc": family, "socketpair=vsock": family, "socketpair=audit": family, "socketpair=unix": "<nil>",
		"socket=unix": "<nil>", "socket=inet": "<nil>", "socket=inet6": "<nil>", "socket=route": "<nil>",
	}
	var words []string
	for word := range want {
		words = append(words, word)
	}
	for word, how := range b.Try(words...) {
		if how != want[word] {
			t.Errorf("%s: %s, want %s", word, how, want[word])
		}
	}
	if code, out, _ := b.Start(sandbox.Self, "try", "x32").End(); code != 128+int(unix.SIGSYS) {
		t.Errorf("a call of another kind: exit code %d, %s", code, out)
	}
}
