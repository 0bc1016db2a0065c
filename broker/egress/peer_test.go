//go:build linux

package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/brokertest/counterpart"
)

// childSocket makes the test's own binary a process in a box, which does what each line that it
// reads says, and prints what came of it: see told.
const childSocket = "EGRESS_TEST_SOCKET"

func TestMain(m *testing.M) {
	path := os.Getenv(childSocket)
	if path == "" {
		if err := resolveProviders(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		told(path, lines.Text())
	}
	os.Exit(0)
}

// told asks the socket what the box is, passes a connection to it on, or speaks in one that is passed.
func told(path, line string) {
	switch word, at, _ := strings.Cut(line, " "); word {
	case "give":
		if err := give(path, at); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("given")
	case "take":
		l, err := net.Listen("unix", at)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = l.Close() }()
		fmt.Println("ready")
		got, err := taken(l)
		if err != nil {
			got = err.Error()
		}
		fmt.Println(got)
	case "leave":
		if err := left(path); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("left")
	case "connect":
		if _, err := net.Dial("unix", path); err != nil {
			fmt.Println(err)
		}
	default:
		fmt.Println(asked(path))
	}
}

// asked is the first line of what /box answers, or why there is none.
func asked(path string) string {
	c, err := net.Dial("unix", path)
	if err != nil {
		return "refused"
	}
	return ask(c)
}

// ask asks in a connection, and closes it.
func ask(c net.Conn) string {
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "GET /box HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
	all, _ := io.ReadAll(c)
	line, _, _ := strings.Cut(string(all), "\r\n")
	return line
}

// child is such a process.
type child struct {
	in        io.Writer
	out       *bufio.Reader
	namespace uint64
}

// isolated starts one in network namespaces of its own.
func isolated(t *testing.T, socket string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childSocket+"="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		counterpart.Missing(t, "peer-pidfd", "this user cannot make namespaces: "+err.Error())
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var st syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), &st); err != nil {
		t.Fatal(err)
	}
	return &child{in: in, out: bufio.NewReader(out), namespace: st.Ino}
}

func (c *child) ask() { c.say("go") }

func (c *child) say(line string) { _, _ = io.WriteString(c.in, line+"\n") }

func (c *child) answer(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// kernelBox is a box that the kernel's word is to open, which is not registered yet, and two processes
// that have its socket: one that will be in it, and another.
type kernelBox struct {
	*bed
	broker.Box
	in, other *child
	register  func(namespace uint64) (broker.Box, error)
}

func newKernelBox(t *testing.T) *kernelBox {
	t.Helper()
	b := newBed(t, echo)
	boxes := b.openBoxes(t, broker.BoxByKernel)
	if err := boxes.Kernel(); err != nil {
		counterpart.Missing(t, "peer-pidfd", "PIDFD_GET_NET_NAMESPACE needs Linux 6.11: "+err.Error())
	}
	s, who := b.task(t), b.Principals[brokertest.Runner]
	box, err := boxes.Open(t.Context(), who, s.Task.ID, broker.BoxSpec{})
	if err != nil || box.State != broker.BoxWaiting || box.Identity != broker.BoxByKernel {
		t.Fatal(box, err)
	}
	return &kernelBox{bed: b, Box: box, in: isolated(t, box.Socket), other: isolated(t, box.Socket), register: func(namespace uint64) (broker.Box, error) {
		return boxes.Register(t.Context(), who, s.Task.ID, box.ID, namespace)
	}}
}

// E105: the kernel says who connects. Nobody is let in before it is known who
// belongs to the box, and then only who is in its network namespace: not the host, not
// another box that got hold of the socket.
func TestKernelIdentity(t *testing.T) {
	t.Parallel()
	b := newKernelBox(t)
	b.in.ask() // before the box is known: it waits
	var own syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []uint64{0, own.Ino} {
		if _, err := b.register(ns); broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("registered as %d: %v", ns, err)
		}
	}
	for range 2 {
		if got, err := b.register(b.in.namespace); err != nil || got.State != broker.BoxOpen {
			t.Fatal(got, err)
		}
	}
	if _, err := b.register(b.other.namespace); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("registered once more as another: %v", err)
	}
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the box: %q", got)
	}
	b.other.ask()
	if got := b.other.answer(t); got != "" {
		t.Errorf("another box: %q", got)
	}
	if got := asked(b.Socket); got != "" {
		t.Errorf("the host: %q", got)
	}
	b.in.ask()
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the box again: %q", got)
	}
	if got := fmt.Sprint(b.kinds(t, b.TaskID)); got != "[box.opened box.registered box.stranger it is in another network namespace]" {
		t.Errorf("on the record: %s", got)
	}
}
