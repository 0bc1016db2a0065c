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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// childSocket makes the test binary a process in a sandbox. It executes the commands that it reads,
// one a line, and prints the results: see told.
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

// told requests the description of the endpoint, passes a connection on, or sends a request in a
// passed connection.
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

// asked returns the first line of the response to /sandbox, or the error.
func asked(path string) string {
	c, err := net.Dial("unix", path)
	if err != nil {
		return "refused"
	}
	return ask(c)
}

// ask sends the request for /sandbox in a connection, and closes the connection.
func ask(c net.Conn) string {
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
	all, _ := io.ReadAll(c)
	line, _, _ := strings.Cut(string(all), "\r\n")
	return line
}

// child is a test binary that runs as a process in a sandbox.
type child struct {
	in        io.Writer
	out       *bufio.Reader
	namespace uint64
}

// isolated starts a child in network namespaces of its own.
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

// kernelSandbox is an endpoint with EndpointByKernel that is not registered yet, and two processes that have
// its socket: one that will be in the sandbox, and another.
type kernelSandbox struct {
	*bed
	broker.EgressEndpoint
	in, other *child
	register  func(namespace uint64) (broker.EgressEndpoint, error)
}

func newKernelSandbox(t *testing.T) *kernelSandbox {
	t.Helper()
	b := newBed(t, echo)
	sandboxes := b.openEndpoints(t, broker.EndpointByKernel)
	if err := sandboxes.Kernel(); err != nil {
		counterpart.Missing(t, "peer-pidfd", "PIDFD_GET_NET_NAMESPACE needs Linux 6.11: "+err.Error())
	}
	s, who := b.task(t), b.Principals[brokertest.Runner]
	sandbox, err := sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{})
	if err != nil || sandbox.State != broker.EndpointWaiting || sandbox.Identity != broker.EndpointByKernel {
		t.Fatal(sandbox, err)
	}
	return &kernelSandbox{bed: b, EgressEndpoint: sandbox, in: isolated(t, sandbox.Socket), other: isolated(t, sandbox.Socket), register: func(namespace uint64) (broker.EgressEndpoint, error) {
		return sandboxes.Register(t.Context(), who, s.Task.ID, sandbox.ID, namespace)
	}}
}

// E105: the kernel identifies the peers. No peer is admitted before Register, and afterwards only
// peers in the registered network namespace: not the host, and not another sandbox that has the
// socket.
//
//ebb:invariant I2 An egress endpoint admits a connection by the network namespace of the process that opened it, not of the process that uses it
func TestKernelIdentity(t *testing.T) {
	t.Parallel()
	b := newKernelSandbox(t)
	b.in.ask() // before the registration: it waits
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
		if got, err := b.register(b.in.namespace); err != nil || got.State != broker.EndpointOpen {
			t.Fatal(got, err)
		}
	}
	if _, err := b.register(b.other.namespace); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("registered once more as another: %v", err)
	}
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the sandbox: %q", got)
	}
	b.other.ask()
	if got := b.other.answer(t); got != "" {
		t.Errorf("another sandbox: %q", got)
	}
	if got := asked(b.Socket); got != "" {
		t.Errorf("the host: %q", got)
	}
	b.in.ask()
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the sandbox again: %q", got)
	}
	if got := fmt.Sprint(b.kinds(t, b.TaskID)); got != "[box.opened box.registered box.stranger the peer is in another network namespace than the registered one]" {
		t.Errorf("in the audit log: %s", got)
	}
}
