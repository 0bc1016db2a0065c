package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/egress"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// farFlags say what a way out on this machine is like.
type farFlags struct {
	tool, dir, listen, ca, namespace string
	anybody                          bool
}

// farBox is what `ebb egress` prints when the way out is open.
type farBox struct {
	broker.Box
	Socket string `json:"socket,omitempty"` // here
	Listen string `json:"listen,omitempty"`
	CAFile string `json:"ca_file"`
}

var farColumns = []out.Column[farBox]{
	{Name: "id", Cell: func(b farBox) string { return b.ID }},
	{Name: "task_id", Cell: func(b farBox) string { return b.TaskID }},
	{Name: "tool", Cell: func(b farBox) string { return b.Tool }},
	{Name: "socket", Cell: func(b farBox) string { return b.Socket }},
	{Name: "listen", Cell: func(b farBox) string { return b.Listen }},
	{Name: "ca_file", Cell: func(b farBox) string { return b.CAFile }},
	{Name: "expires_at", Cell: func(b farBox) string { return out.Time(b.ExpiresAt) }},
}

func newEgress(c *cli) *cobra.Command {
	var f farFlags
	cmd := &cobra.Command{
		Use: "egress TASK", Short: "Be the way out of a sandbox on a machine where ebb is not", Args: cobra.ExactArgs(1),
		Long: `Open a way out for a sandbox of TASK on this machine, and hand its connections on to an ebb
on another, until the task ends. No credential comes here: ebb adds them to the requests.
The ebb has to carry such boxes (egress.remote). 'ebb run' does this by itself.

With --dir the way out is a unix socket, and who connects is asked of the kernel:
--network-namespace says which processes are the sandbox. With --anybody whoever reaches
the socket is; keep it to the sandbox then, as by a volume of its container alone.

With --listen it is a port of loopback, for a sidecar: every user and process of its network
namespace is in the sandbox then, which --anybody says that you know. On a machine that
others use it is nobody's sandbox. Tools take it as HTTPS_PROXY, and trust the CA of --ca.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.tool, "tool", "", "tool that it is for; default: any of the task")
	fl.StringVar(&f.dir, "dir", "", "`directory` (0700) in which the socket is made, in a directory of its own")
	fl.StringVar(&f.namespace, "network-namespace", "", "with --dir: `path` of the sandbox's network namespace, like /proc/PID/ns/net")
	fl.BoolVar(&f.anybody, "anybody", false, "whoever reaches the socket or the port is the sandbox")
	fl.StringVar(&f.listen, "listen", "", "`address` of loopback with a port, like 127.0.0.1:3128")
	fl.StringVar(&f.ca, "ca", "", "`file` for the certificate of the CA that the sandbox has to trust, PEM")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		return c.egressFar(cmd.Context(), o, args[0], f)
	})
	return c.output(c.remote(cmd))
}

func (f *farFlags) check() error {
	switch {
	case f.ca == "":
		return usage("--ca is missing", "name a file that the sandbox can read, like --ca /run/ebb/ca.pem")
	case (f.dir == "") == (f.listen == ""):
		return usage("it takes either --dir or --listen", "--dir for a socket, --listen for a port of loopback")
	case f.listen != "" && (f.namespace != "" || !f.anybody):
		return usage("whoever reaches a port of loopback is the sandbox: every user and process of this network namespace", "run it in the network namespace of the sandbox and say so with --anybody, or take --dir with --network-namespace")
	case f.dir != "" && (f.namespace == "") != f.anybody:
		return usage("who is the sandbox?", "say it with --network-namespace, like /proc/PID/ns/net, or with --anybody")
	}
	if f.listen != "" {
		if at, err := netip.ParseAddrPort(f.listen); err != nil || !at.Addr().IsLoopback() {
			return usage("--listen "+f.listen+" is no port of loopback", "write it like 127.0.0.1:3128: what others reach would be no sandbox's")
		}
	}
	return nil
}

// egressFar opens the box, prints what it is, and serves until its task or ctx ends.
func (c *cli) egressFar(ctx context.Context, o *client.Operator, taskID string, f farFlags) (err error) {
	place, err := f.place()
	if err != nil {
		return err
	}
	defer place.close()
	e := &endpoint{o: o, spec: broker.BoxSpec{Tool: f.tool, Identity: broker.BoxByRunner}}
	if err := e.open(ctx, taskID); err != nil {
		return err
	}
	b := e.box
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if _, cerr := o.CloseBox(end, b); cerr != nil && !client.IsKind(cerr, broker.NotFound) && !client.IsKind(cerr, broker.Conflict) {
			err = errors.Join(err, cerr)
		}
	}()
	l, shown, err := c.farDoor(b, f, place)
	if err != nil {
		return err
	}
	ca, err := certificateOf(b)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := replaceFile(f.ca, ca, 0o644); err != nil {
		return errors.Join(fail("the certificate cannot be written: "+err.Error(), otherCA), l.Close())
	}
	if err := out.One(c.stdout, c.format, farColumns, shown); err != nil {
		return errors.Join(err, l.Close())
	}
	served, over := context.WithCancelCause(ctx)
	defer over(nil)
	go watchTask(served, o, taskID, over)
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	carrier := egress.Carrier{
		Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			conn, err := e.dial(ctx)
			if err != nil && !errors.Is(err, egress.ErrBusy) {
				if t, terr := o.Task(served, taskID); isOver(t, terr) { // ctx may be over by now
					over(broker.ErrTaskClosed)
				}
			}
			return conn, err
		},
		Failed: func(err error) {
			log.WarnContext(ctx, "a connection of the box could not be handed on", "error", err)
		},
	}
	err = carrier.Serve(served, l)
	switch cause := context.Cause(served); {
	case ctx.Err() != nil, errors.Is(cause, broker.ErrTaskClosed):
		return nil
	case cause != nil:
		return cause
	}
	return err
}

// certificateOf is the certificate of a box's CA, and nothing else that ebb may have sent: it becomes a file
// that the sandbox trusts.
func certificateOf(b broker.Box) ([]byte, error) {
	block, rest := pem.Decode([]byte(b.CA))
	if block != nil && block.Type == "CERTIFICATE" && len(block.Headers) == 0 && len(bytes.TrimSpace(rest)) == 0 {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA {
			return pem.EncodeToMemory(block), nil
		}
	}
	return nil, fail("what ebb names as the CA of the box is no certificate of one", "check that --url is your ebb's")
}

// isOver reports whether what ebb says of a task is that it is over.
func isOver(t broker.Task, err error) bool {
	return err == nil && t.State == broker.TaskClosed || client.IsKind(err, broker.NotFound)
}

// closeTime is for how long the end waits until ebb has heard of it.
const closeTime = 5 * time.Second

// watchTask ends what is served when the task is over.
func watchTask(ctx context.Context, o *client.Operator, taskID string, over context.CancelCauseFunc) {
	for {
		t, err := o.Task(ctx, taskID)
		if isOver(t, err) {
			over(broker.ErrTaskClosed)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

const watchEvery = 5 * time.Second

// replaceFile writes a file whole, or not at all: who reads it meanwhile reads the one before.
func replaceFile(path string, text []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-")
	if err != nil {
		return err
	}
	_, err1 := tmp.Write(text)
	if err := errors.Join(err1, tmp.Chmod(mode), tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
