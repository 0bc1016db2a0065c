package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"ebb/broker"
)

// remote is the sandbox seen from the tour.
type remote struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// openRemote starts the sandbox: a child of this very binary, without the
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
		return nil, fmt.Errorf("starting the sandbox: %w", err)
	}
	return &remote{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out)}, nil
}

// close lets the child end by itself.
func (b *remote) close() error { return errors.Join(b.in.Close(), b.cmd.Wait()) }

// tell gives an order and waits for the reply.
func (b *remote) tell(o order) (reply, error) {
	if err := b.enc.Encode(o); err != nil {
		return reply{}, fmt.Errorf("the sandbox is gone: %w", err)
	}
	return b.hear()
}

func (b *remote) hear() (reply, error) {
	var r reply
	if err := b.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("the sandbox is gone: %w", err)
	}
	return r, nil
}

// good is a reply without an error.
func good(r reply, err error) error {
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return err
}

// refused is a reply whose error has one of the kinds.
func refused(r reply, err error, kinds ...broker.Kind) error {
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
	return fmt.Errorf("refused otherwise: %s", r.Error)
}

// status is a reply of the shop with that status.
func status(r reply, err error, want int) error {
	if err := good(r, err); err != nil {
		return err
	}
	if r.Status != want {
		return fmt.Errorf("the shop answered %d, not %d", r.Status, want)
	}
	return nil
}
