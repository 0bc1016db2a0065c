//go:build linux

package unixpeer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/client"
)

// childAgent is a sandbox that has only the socket. It enrols for each task that its
// standard input names, and requests a credential.
func childAgent(socket string) error {
	ctx := context.Background()
	in := bufio.NewReader(os.Stdin)
	for {
		task, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(mint(ctx, socket, strings.TrimSpace(task)))
	}
}

func mint(ctx context.Context, socket, task string) string {
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return err.Error()
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: "https://ebb.test", Socket: socket}, Key: key})
	if err != nil {
		return err.Error()
	}
	if _, err := s.EnrolEvidence(ctx, task, "box", ""); err != nil {
		return "not enrolled: " + err.Error()
	}
	c, err := s.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read"})
	if err != nil {
		return "no credential: " + err.Error()
	}
	return "minted " + c.Scope
}

// The complete flow: a process that has only the socket and the id of its task gets a
// credential, another process does not, and the exit of the process is detected.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	a := newAttestor(t, unixpeer.Config{})
	env := brokertest.New(t, brokertest.Config{Issuer: "https://ebb.test", RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"box": a}})
	mux, err := web.New(web.Config{PublicURL: env.Issuer})
	if err != nil {
		t.Fatal(err)
	}
	surface, err := api.New(api.Config{Broker: env.Broker, Mux: mux})
	if err != nil {
		t.Fatal(err)
	}
	surface.Register()
	path := newListener(t).path + "2"
	l, err := web.ListenUnix(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewServer(mux, web.Limits{}, nil)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })

	agent, stranger := start(t, "agent", path), start(t, "agent", path)
	open := func(c *child) broker.Task {
		spec := brokertest.Spec()
		spec.Ticket = false
		pid := strconv.Itoa(c.cmd.Process.Pid)
		spec.Expect = broker.Expect{Attestor: "box", Selectors: map[string]string{"pid": pid, "start_time": started(t, pid)}}
		task, _, err := env.Broker.OpenTask(t.Context(), env.Principals[brokertest.Runner], spec)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	says := func(c *child, task broker.Task, want string) {
		t.Helper()
		if _, err := io.WriteString(c.in, task.ID+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := c.out.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("got %q, %v; want %q", line, err, want)
		}
	}
	everybody := brokertest.Spec()
	everybody.Ticket, everybody.Expect = false, broker.Expect{Attestor: "box", Selectors: map[string]string{"uid": strconv.Itoa(os.Getuid())}}
	if _, _, err := env.Broker.OpenTask(t.Context(), env.Principals[brokertest.Runner], everybody); broker.AsError(err).Kind != broker.Invalid ||
		!strings.Contains(broker.AsError(err).Public, "selector pid") {
		t.Errorf("a task for every process of a user: %v", err)
	}
	mine, others := open(agent), open(stranger)
	says(stranger, mine, "differ from those registered")
	says(agent, mine, "minted orders:eu/42:read")
	says(agent, others, "differ from those registered")
	says(agent, mine, "another key") // a second task, with a second key, is refused
	says(stranger, others, "minted")

	task, err := env.Broker.Task(t.Context(), env.Principals[brokertest.Runner], mine.ID)
	if err != nil || task.Sandbox == nil || task.Sandbox.Class != string(attest.ClassKernel) {
		t.Fatalf("got %+v, %v", task.Sandbox, err)
	}
	id := attest.Identity{Attestor: task.Sandbox.Attestor, Subject: task.Sandbox.Subject, Class: attest.Class(task.Sandbox.Class), Selectors: task.Sandbox.Selectors}
	out := watch(t.Context(), a, id)
	from := time.Now()
	agent.kill()
	waitFor(t, from, out).is(t, "process_exited")
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		task, err := env.Broker.Task(t.Context(), env.Principals[brokertest.Runner], mine.ID)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the task is %s, %v", task.State, err)
		}
		if task.State == broker.TaskClosed {
			t.Logf("closed after %v", time.Since(from))
			break
		}
	}
	if other, err := env.Broker.Task(t.Context(), env.Principals[brokertest.Runner], others.ID); err != nil || other.State != broker.TaskOpen {
		t.Errorf("the other's task is %s, %v", other.State, err)
	}
}

// started returns the selectors that a runner can register for a process it started.
func started(t *testing.T, pid string) string {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return startOf(stat)
}

func startOf(stat []byte) string {
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19]
}
