package none

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind.
type Kind struct{}

// Start implements box.Kind. It uses only the command, environment and streams
// of Spec.
func (Kind) Start(s box.Spec) (box.Running, error) {
	path, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrCommand, err)
	}
	cmd := exec.Command(path, s.Argv[1:]...)
	cmd.Args[0] = s.Argv[0]
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Env, s.Work, s.Stdin, s.Stdout, s.Stderr
	if s.Ready != nil {
		if err := s.Ready(box.Identity{}); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrCommand, err)
	}
	return &child{cmd}, nil
}

type child struct{ cmd *exec.Cmd }

// Signal implements box.Running.
func (c *child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// Kill implements box.Running. It kills the command alone; the command's child
// processes continue.
func (c *child) Kill() { _ = c.cmd.Process.Kill() }

// Wait implements box.Running.
func (c *child) Wait() (int, error) {
	err := c.cmd.Wait()
	ee, ended := errors.AsType[*exec.ExitError](err)
	if !ended {
		return 0, err
	}
	return box.Code(ee.Sys().(syscall.WaitStatus)), nil
}
