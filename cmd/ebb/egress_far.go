package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// egressCommand implements ebb egress.
type egressCommand struct{ *cli }

// farFlags describe the egress endpoint on this machine.
type farFlags struct {
	tool, dir, listen, ca, namespace string
	anybody                          bool
}

// farEndpoint is the output of `ebb egress` once the egress endpoint is open.
type farEndpoint struct {
	wire.EgressEndpoint
	Socket string `json:"socket,omitempty"` // on this machine
	Listen string `json:"listen,omitempty"`
	CAFile string `json:"ca_file"`
}

var farColumns = []out.Column[farEndpoint]{
	{Name: "id", Cell: func(b farEndpoint) string { return b.ID }, Form: out.ID},
	{Name: "task_id", Cell: func(b farEndpoint) string { return b.TaskID }},
	{Name: "tool", Cell: func(b farEndpoint) string { return b.Tool }},
	{Name: "socket", Cell: func(b farEndpoint) string { return b.Socket }},
	{Name: "listen", Cell: func(b farEndpoint) string { return b.Listen }},
	{Name: "ca_file", Cell: func(b farEndpoint) string { return b.CAFile }},
	{Name: "expires_at", Cell: func(b farEndpoint) string { return out.Time(b.ExpiresAt) }, Form: out.When},
}

func newEgress(c *cli) *cobra.Command {
	var f farFlags
	cmd := &cobra.Command{
		Use: "egress TASK", Short: "Run the egress endpoint of a sandbox on a machine without ebb", Args: cobra.ExactArgs(1),
		Long: `Open an egress endpoint for a sandbox of TASK on this machine, and forward its
connections to an ebb on another machine, until the task ends. No credential reaches
this machine: ebb adds credentials to the requests. That ebb must allow remote
sandboxes (egress.remote). 'ebb run' does the same by itself.

With --dir the endpoint is a Unix socket. With --network-namespace the kernel confirms
that a connection comes from that network namespace, which is the sandbox's. With
--anybody every process that can connect to the socket counts as the sandbox; make it
reachable from the sandbox only, for example in a volume of its container.

With --listen the endpoint is a port of loopback, for a sidecar. Every user and process
of the network namespace then counts as the sandbox, and --anybody is required to
confirm it. Do not use it on a machine with other users. Tools use the port as
HTTPS_PROXY and must trust the CA in the file --ca.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.tool, "tool", "", "tool that may use the endpoint; default: every tool of the task")
	fl.StringVar(&f.dir, "dir", "", "`directory` (mode 0700) in which a new directory with the socket is created")
	fl.StringVar(&f.namespace, "network-namespace", "", "with --dir: `path` of the sandbox's network namespace, like /proc/PID/ns/net")
	fl.BoolVar(&f.anybody, "anybody", false, "every process that can connect to the socket or port counts as the sandbox")
	fl.StringVar(&f.listen, "listen", "", "`address` of loopback with a port, like 127.0.0.1:3128")
	fl.StringVar(&f.ca, "ca", "", "`file` to write with the CA certificate that the sandbox must trust, PEM")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		return egressCommand{c}.egressFar(cmd.Context(), o, args[0], f)
	})
	return c.output(c.remote(cmd))
}

func (f *farFlags) check() error {
	switch {
	case f.ca == "":
		return usage("--ca is missing", "name a file that the sandbox can read, like --ca /run/ebb/ca.pem")
	case (f.dir == "") == (f.listen == ""):
		return usage("exactly one of --dir and --listen is required", "--dir for a socket, --listen for a port of loopback")
	case f.listen != "" && (f.namespace != "" || !f.anybody):
		return usage("with --listen every user and process of this network namespace counts as the sandbox", "run the command in the sandbox's network namespace and add --anybody, or use --dir with --network-namespace")
	case f.dir != "" && (f.namespace == "") != f.anybody:
		return usage("exactly one of --network-namespace and --anybody is required", "name the sandbox with --network-namespace, like /proc/PID/ns/net, or use --anybody")
	}
	if f.listen != "" {
		if at, err := netip.ParseAddrPort(f.listen); err != nil || !at.Addr().IsLoopback() {
			return usage("--listen "+f.listen+" is not a port of loopback", "write it like 127.0.0.1:3128; other machines must not reach the endpoint")
		}
	}
	return nil
}

// egressFar opens the endpoint, prints it, and serves until its task or ctx
// ends.
func (c egressCommand) egressFar(ctx context.Context, o *client.Operator, taskID string, f farFlags) (err error) {
	place, err := f.place()
	if err != nil {
		return err
	}
	defer place.close()
	e := &endpoint{o: o, spec: wire.EgressEndpointSpec{Tool: f.tool, Identity: wire.EndpointByRunner}}
	if err := e.open(ctx, taskID); err != nil {
		return err
	}
	b := e.state
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if _, cerr := o.Endpoints.Close(end, b); cerr != nil && !client.IsKind(cerr, wire.KindNotFound) && !client.IsKind(cerr, wire.KindConflict) {
			err = errors.Join(err, cerr)
		}
	}()
	l, shown, err := c.farListener(b, f, place)
	if err != nil {
		return err
	}
	ca, err := certificateOf(b)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := replaceFile(f.ca, ca, 0o644); err != nil {
		return errors.Join(fail("write the CA certificate: "+err.Error(), otherCA), l.Close())
	}
	if err := out.One(c.stdout, c.format, farColumns, shown); err != nil {
		return errors.Join(err, l.Close())
	}
	served, over := context.WithCancelCause(ctx)
	defer over(nil)
	go watchTask(served, o, taskID, over)
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	carrier := egress.Forwarder{
		Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			conn, err := e.dial(ctx)
			if err != nil && !errors.Is(err, egress.ErrBusy) {
				if t, terr := o.Tasks.Get(served, taskID); isOver(t, terr) { // ctx may have ended
					over(broker.ErrTaskClosed)
				}
			}
			return conn, err
		},
		Failed: func(err error) {
			log.WarnContext(ctx, "a connection of the sandbox could not be forwarded", "error", err)
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

// certificateOf returns the certificate of the endpoint's CA. It refuses any
// other content in b.CA, because the result becomes a file that the sandbox
// trusts.
func certificateOf(b wire.EgressEndpoint) ([]byte, error) {
	block, rest := pem.Decode([]byte(b.CA))
	if block != nil && block.Type == "CERTIFICATE" && len(block.Headers) == 0 && len(bytes.TrimSpace(rest)) == 0 {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA {
			return pem.EncodeToMemory(block), nil
		}
	}
	return nil, fail("the ca that ebb returned is not exactly one CA certificate", "check that --url is your ebb's")
}

// isOver reports whether ebb says that a task has ended.
func isOver(t wire.Task, err error) bool {
	return err == nil && t.State == wire.TaskClosed || client.IsKind(err, wire.KindNotFound)
}

// closeTime is the timeout for telling ebb that the endpoint is closed.
const closeTime = 5 * time.Second

// watchTask polls the task, and calls over when it has ended.
func watchTask(ctx context.Context, o *client.Operator, taskID string, over context.CancelCauseFunc) {
	for {
		t, err := o.Tasks.Get(ctx, taskID)
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

// replaceFile replaces a file atomically: a reader sees the whole old or the
// whole new content.
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

// farPlace is the checked place of an egress endpoint on this machine. It is
// checked before the endpoint is opened at ebb, so that a typing error leaves
// no entry in the audit log.
type farPlace struct {
	listener net.Listener // with --listen

	dir string // with --dir

	// pinned is the sandbox's network namespace, nil with --anybody, and
	// namespace its inode. The file stays open until the command ends, so that
	// the kernel cannot reuse the inode number.
	pinned    *os.File
	namespace uint64
}

// place checks the paths and the address that the flags name. check must have
// accepted the flags.
func (f *farFlags) place() (*farPlace, error) {
	if err := mayHold(f.ca); err != nil {
		return nil, fail("write the CA certificate: "+err.Error(), otherCA)
	}
	if f.listen != "" {
		l, err := net.Listen("tcp", f.listen)
		if err != nil {
			return nil, fail(err.Error(), "choose another port with --listen")
		}
		return &farPlace{listener: l}, nil
	}
	p := &farPlace{dir: filepath.Clean(f.dir)} // with a trailing slash Lstat would follow a link
	if err := ownPlace(p.dir); err != nil {
		return nil, err
	}
	if f.namespace == "" {
		return p, nil
	}
	err := egress.CheckKernel()
	if err != nil {
		return nil, fail(err.Error(), "use a newer kernel, or --anybody with a socket that only the sandbox can reach")
	}
	if p.pinned, p.namespace, err = egress.OpenNamespace(f.namespace); err != nil {
		return nil, fail(err.Error(), "name the network namespace of a running process of the sandbox, like /proc/PID/ns/net")
	}
	return p, nil
}

// otherCA is the next step if the certificate cannot be written.
const otherCA = "name a file in a writable directory with --ca"

// mayHold refuses a path at which replaceFile would fail, as far as it can be
// tested: it does not detect a mount point, or a file that another user owns in
// a sticky directory.
func mayHold(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New(path + " is a directory")
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ebb-")
	if err != nil {
		return err
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// doorAdvice returns the next step for an error of NewListener: advice, unless
// the error is in ebb's response.
func doorAdvice(err error, advice string) string {
	if errors.Is(err, egress.ErrEndpointID) {
		return "check that --url is your ebb's"
	}
	return advice
}

// close releases the place. The listener may have been closed before.
func (p *farPlace) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	if p.pinned != nil {
		_ = p.pinned.Close()
	}
}

// ownPlace refuses a directory that other users can access, or whose path is
// too long for a socket in it. dir must be a clean path.
func ownPlace(dir string) error {
	if err := ownAlone(dir, os.Lstat, 0o077); err != nil {
		return fail(err.Error(), "name a directory of this user with --dir, with mode 0700 and not a symbolic link, and mount the directory created in it into the sandbox")
	}
	if !config.FitsSocket(dir) {
		return fail(dir+" is too long: a socket in it would exceed the limit of a socket path", "name a directory with a shorter path with --dir")
	}
	return nil
}

// farListener returns the listener for the connections of the sandbox. Closing it
// also closes the listener of the place.
func (c egressCommand) farListener(b wire.EgressEndpoint, f farFlags, p *farPlace) (net.Listener, farEndpoint, error) {
	shown := farEndpoint{EgressEndpoint: b, CAFile: f.ca}
	if p.listener != nil {
		shown.Listen = p.listener.Addr().String()
		return p.listener, shown, nil
	}
	by := broker.EndpointBySocket
	if p.pinned != nil {
		by = broker.EndpointByKernel
	}
	listener, err := egress.NewListener(p.dir, coreEndpoint(b), by, runReport(c).strangers())
	if err != nil {
		return nil, shown, fail("create the socket: "+err.Error(), doorAdvice(err, "check that --dir is writable and has free space"))
	}
	if p.pinned != nil {
		if err := listener.Register(p.namespace); err != nil {
			return nil, shown, errors.Join(fail(err.Error(), "name the sandbox's network namespace with --network-namespace"), listener.Close())
		}
	}
	shown.Socket = listener.Socket()
	return listener, shown, nil
}
