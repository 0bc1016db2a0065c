package none

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Kind implements sandbox.Kind.
type Kind struct{}

// Start implements sandbox.Kind. It uses only the command, environment and streams
// of Spec.
func (Kind) Start(s sandbox.Spec) (sandbox.Running, error) {
	path, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return nil, sandbox.NotStarted(err)
	}
	cmd := exec.Command(path, s.Argv[1:]...)
	cmd.Args[0] = s.Argv[0]
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Env, s.Work, s.Stdin, s.Stdout, s.Stderr
	if s.Ready != nil {
		if err := s.Ready(sandbox.Identity{}); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, sandbox.NotStarted(err)
	}
	return &child{cmd}, nil
}

type child struct{ cmd *exec.Cmd }

// Signal implements sandbox.Running.
func (c *child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// Kill implements sandbox.Running. It kills the command alone; the command's child
// processes continue.
func (c *child) Kill() { _ = c.cmd.Process.Kill() }

// Wait implements sandbox.Running.
func (c *child) Wait() (int, error) {
	err := c.cmd.Wait()
	ee, ended := errors.AsType[*exec.ExitError](err)
	if !ended {
		return 0, err
	}
	return sandbox.Code(ee.Sys().(syscall.WaitStatus)), nil
}
