package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// endPatience is how long `ebb run` tries to complete its task. Afterwards the
// missing heartbeat ends it.
const endPatience = 30 * time.Second

func newRun(c *cli) *cobra.Command {
	var flags taskFlags
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD [ARG...]", Short: "Open a task, run CMD in it, complete the task when CMD ends", Args: cobra.MinimumNArgs(1),
		Long: `Open a task, run CMD as a plain child process, and complete the task when it
exits or dies: every credential of it is dead then. The child finds EBB_URL,
EBB_TASK_ID, EBB_CLIENT_ID and EBB_KEY_FILE in its environment, so that
'ebb token --scope ...' works in it. Signals are passed on, and so is CMD's exit
code; a CMD that died of a signal gives 128 + its number. If ebb itself dies, the
missing heartbeat ends the task.`,
	}
	flags.add(cmd, 30*time.Second)
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		if flags.heartbeat < 2*time.Second {
			return usage("--heartbeat is too short", "choose at least 2s; without heartbeats a dead ebb would leave the task open")
		}
		if !cmd.Flags().Changed("name") {
			flags.name = filepath.Base(args[0])
		}
		spec, err := flags.spec(true)
		if err != nil {
			return err
		}
		return c.runIn(cmd.Context(), spec, args)
	})
	return c.remote(cmd)
}

// runIn opens the task, runs the child and ends the task, whatever happened.
func (c *cli) runIn(ctx context.Context, spec broker.TaskSpec, args []string) (err error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return usage(err.Error(), "name a program that can be run")
	}
	o, err := c.operator(operatorKey)
	if err != nil {
		return err
	}
	task, ticket, err := o.OpenTask(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.complete(ctx, o, task.ID)) }()
	if ticket == nil {
		return fail("ebb gave no ticket", "open the task with --attestor enroll")
	}
	dir, err := os.MkdirTemp("", "ebb-run-") // mode 0700
	if err != nil {
		return fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	defer os.RemoveAll(dir)
	env, err := c.childEnv(ctx, *ticket, filepath.Join(dir, "sandbox.key"))
	if err != nil {
		return err
	}
	child := exec.Command(path, args[1:]...)
	child.Args[0] = args[0]
	child.Stdin, child.Stdout, child.Stderr, child.Env = c.stdin, c.stdout, c.stderr, env
	return c.watch(ctx, o, task, child)
}

// childEnv enrols the sandbox and says how the child proves to be it. The ticket
// is spent before the child starts: no secret is in the environment but the name
// of a file.
func (c *cli) childEnv(ctx context.Context, ticket broker.Ticket, path string) ([]string, error) {
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return nil, err
	}
	s, err := c.newSandbox(keyfile.File{Key: key})
	if err != nil {
		return nil, err
	}
	e, err := s.Enrol(ctx, ticket.Ticket)
	if err != nil {
		return nil, err
	}
	if err := keyfile.Write(path, keyfile.File{ClientID: e.ClientID, TaskID: e.TaskID, Key: key}); err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	var env []string
	for _, line := range c.environ {
		// What points at the operator's own key or server must not reach the child.
		if !strings.HasPrefix(line, "EBB_") {
			env = append(env, line)
		}
	}
	env = append(env, "EBB_URL="+peer.Issuer, "EBB_TASK_ID="+e.TaskID, "EBB_CLIENT_ID="+e.ClientID, "EBB_KEY_FILE="+path)
	if c.caFile != "" {
		env = append(env, "EBB_CA_FILE="+c.caFile)
	}
	if c.socket != "" {
		env = append(env, "EBB_SOCKET="+c.socket)
	}
	return env, nil
}

// watch runs the child to its end: signals go to it, heartbeats to ebb.
func (c *cli) watch(ctx context.Context, o *client.Operator, task broker.Task, child *exec.Cmd) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return fail("CMD could not be started: "+err.Error(), "check that it can be run")
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go c.beat(beats, o, task, child.Process)
	for {
		select {
		case s := <-signals:
			// At a terminal the child has had these already: it is in the same foreground group.
			if (s == os.Interrupt || s == syscall.SIGQUIT) && terminal(c.stdin) {
				continue
			}
			_ = child.Process.Signal(s) // it may be gone already
		case err := <-ended:
			return c.childEnd(err)
		}
	}
}

// childEnd turns the child's end into this process's exit code.
func (c *cli) childEnd(err error) error {
	ee, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	c.status = exit(ee.ExitCode())
	if ws, ok := ee.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.status = exit(128 + int(ws.Signal()))
	}
	return nil
}

// beat says that the runner is alive. When ebb says that the task is over, the
// child is told to end: nothing it could still do would count.
func (c *cli) beat(ctx context.Context, o *client.Operator, task broker.Task, child *os.Process) {
	t := time.NewTicker(task.Heartbeat.Duration() / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := o.Heartbeat(ctx, task.ID)
		switch {
		case err == nil && now.State == broker.TaskClosed, client.IsKind(err, broker.Conflict), client.IsKind(err, broker.NotFound):
			c.sayf("ebb: the task was ended; CMD is told to stop\n")
			_ = child.Signal(syscall.SIGTERM)
			return
		case err != nil && ctx.Err() == nil:
			c.sayf("ebb: a heartbeat did not arrive: %s\n", explain(err))
		}
	}
}

// complete ends the task, trying again while ebb is out of reach.
func (c *cli) complete(ctx context.Context, o *client.Operator, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		done, err := o.Complete(ctx, id)
		if err == nil {
			c.sayf("ebb: task %s ended: %d credential(s) revoked, %d had expired\n", out.Line(id), done.Revoked, done.AlreadyExpired)
			return nil
		}
		if exitOf(err) != exitUnavailable {
			return fmt.Errorf("the task %s could not be completed: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fail("the task "+out.Line(id)+" could not be completed: ebb is out of reach", "it ends by itself when its heartbeat is missed; `ebb task complete "+out.Line(id)+"` ends it sooner")
		case <-time.After(wait):
		}
	}
}
