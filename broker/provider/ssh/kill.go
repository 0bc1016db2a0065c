package ssh

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

// maxOutput is how much of what a kill command says is kept for the log.
const maxOutput = 512

// kill runs the command that ends open sessions. Its arguments are the
// operator's, word for word; which lease it is about stands in its environment,
// where nothing can become an option or a command:
//
//	EBB_PROVIDER  name of the provider     EBB_SERIAL      of the certificate, decimal
//	EBB_LEASE     lease id                 EBB_KEY_ID      as sshd logs it
//	EBB_TASK      task id                  EBB_PRINCIPALS  separated by spaces
//	                                       EBB_GROUPS      separated by spaces
//
// Exit code 0 means that no session of the certificate is open; anything else,
// and no end in time, is tried again.
func (d *Driver) kill(ctx context.Context, t provider.Target, keyID string) error {
	p, err := d.set.planOf(t.Scopes)
	if err != nil {
		// The configuration has changed since: the serial still says which it is.
		p = plan{}
	}
	ctx, cancel := context.WithTimeout(ctx, d.set.killTime)
	defer cancel()
	argv := d.set.Kill.Command
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the operator's own configuration names it
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"EBB_PROVIDER=" + d.cfg.Name, "EBB_LEASE=" + t.LeaseID, "EBB_TASK=" + t.TaskID, "EBB_KEY_ID=" + keyID,
		"EBB_SERIAL=" + strconv.FormatUint(SerialOf(t.LeaseID), 10),
		"EBB_PRINCIPALS=" + strings.Join(p.principals, " "), "EBB_GROUPS=" + strings.Join(p.groups, " "),
	}
	var said head
	cmd.Stdout, cmd.Stderr = &said, &said
	// What the command started ends with it, or its children would hold the pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return fmt.Errorf("ssh provider: the kill command failed: %w; it said %q", err, said.b)
	}
	return nil
}

// head keeps the first bytes that are written to it.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), maxOutput-len(h.b))]...)
	return len(b), nil
}
