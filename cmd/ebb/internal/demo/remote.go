package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// remote is the tour's side of the sandbox.
type remote struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// openRemote starts the sandbox: a child process of this binary, without the
// environment and without any of the tour's keys.
func openRemote(ctx context.Context, executable, issuer string) (*remote, error) {
	cmd := exec.CommandContext(ctx, executable, "demo", "sandbox")
	cmd.Env = []string{"EBB_URL=" + issuer}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	return &remote{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out)}, nil
}

// close closes the child's input and waits until it has ended.
func (b *remote) close() error { return errors.Join(b.in.Close(), b.cmd.Wait()) }

// tell sends an order and waits for the reply.
func (b *remote) tell(o order) (reply, error) {
	if err := b.enc.Encode(o); err != nil {
		return reply{}, fmt.Errorf("send an order to the sandbox: %w", err)
	}
	return b.hear()
}

func (b *remote) hear() (reply, error) {
	var r reply
	if err := b.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("read the sandbox's reply: %w", err)
	}
	return r, nil
}

// good returns the error of a reply.
func good(r reply, err error) error {
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return err
}

// refused returns nil if the error of a reply has one of the kinds.
func refused(r reply, err error, kinds ...wire.Kind) error {
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if r.Kind == string(k) {
			return nil
		}
	}
	if r.Error == "" {
		return errors.New("it was not refused")
	}
	return fmt.Errorf("refused with another kind: %s", r.Error)
}

// status returns nil if the shop's status in a reply is want.
func status(r reply, err error, want int) error {
	if err := good(r, err); err != nil {
		return err
	}
	if r.Status != want {
		return fmt.Errorf("the shop answered %d, not %d", r.Status, want)
	}
	return nil
}
