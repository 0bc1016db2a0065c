//go:build linux

package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/first"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/handover"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/watchdog"
)

// namePrefix is the prefix of the names of containers.
const namePrefix = "ebb-sandbox-"

// running implements sandbox.Running.
type running struct {
	*first.Process
	client *client
	name   string
	said   limited    // on standard error, by docker, or by the shim before it had CMD's streams
	ended  chan error // result of the client process
	stop   context.CancelFunc
	runner *net.UnixConn      // the shim ends when it is closed
	dog    *watchdog.Watchdog // kills the sandbox if CMD has stopped the shim
}

// start creates the sandbox up to the point where the shim starts the command.
func start(c *client, i image, m place.Mounts, s sandbox.Spec) (*running, error) {
	l, err := listen(s.Keep)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	binds, all, err := furnish(m, s)
	if err != nil {
		return nil, err
	}
	defer all[len(m):].Close()
	p := &plan{name: namePrefix + strings.ToLower(rand.Text()), image: i, keep: s.Keep, user: *s.User, limit: s.Limits, binds: binds}
	args, err := p.args()
	if err != nil {
		return nil, err
	}
	status, d, release, err := lend(s)
	if err != nil {
		return nil, err
	}
	defer d.close()
	defer release.Close()
	r := &running{Process: first.New(status), client: c, name: p.name, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	cmd := c.command(ctx, args...)
	cmd.Stderr = &r.said
	if err := cmd.Start(); err != nil {
		_ = status.Close()
		stop()
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	go func() { r.ended <- cmd.Wait() }()
	if err := r.meet(l, d, all, s); err != nil {
		r.abandon()
		return nil, err
	}
	if _, err := release.Write([]byte{1}); err != nil {
		r.abandon()
		return nil, err
	}
	go r.Follow()
	go r.over()
	return r, nil
}

// meet waits for the shim's connection, verifies its process with the kernel,
// sends it the order, and calls Ready.
func (r *running) meet(l *net.UnixListener, d *lent, all place.Mounts, s sandbox.Spec) error {
	conn, err := r.called(l)
	if err != nil {
		return err
	}
	r.runner = conn
	process, err := callerOf(conn)
	if err != nil {
		return err
	}
	r.Hold(process)
	id, err := verify(process.Pid, *s.User, all)
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	if err := r.guard(all.Self()); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	direct := map[string]string{}
	for _, one := range s.Direct {
		direct[one.Listen()] = one.Host()
	}
	// An unprivileged runner cannot inspect a process that is not dumpable. So
	// the shim stays dumpable for it; the sandbox's own user can then trace the
	// shim, which has no secrets.
	o := handover.Order{Argv: s.Argv, Env: s.Env, Ports: s.Ports, Direct: direct, Files: s.Limits.Files, TTY: s.TTY, Readable: os.Geteuid() != 0}
	if err := handover.Send(conn, o, d.descriptors); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	d.close() // so that the end of the shim closes the pipe
	if err := errors.Join(r.Waits(), conn.SetDeadline(time.Time{})); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	if !r.Alive() {
		return fmt.Errorf("%w: the sandbox ended while it was verified", sandbox.ErrNone)
	}
	if s.Ready == nil {
		return nil
	}
	return s.Ready(id)
}

// guard starts a watchdog for the first process. If there is none, or it ends,
// the sandbox is killed.
func (r *running) guard(self *os.File) error {
	pidfd, err := r.Handle()
	if err != nil {
		return err
	}
	defer pidfd.Close()
	r.dog, err = watchdog.Start(self, pidfd, r.Kill)
	return err
}

// clientPatience is how long the client may take to notice the end of its
// container.
const clientPatience = 10 * time.Second

// over waits for the end of the sandbox.
func (r *running) over() {
	r.Gone()
	err := r.clientEnds()
	r.stop()
	_ = r.runner.Close()
	r.dog.Close()
	r.Over(err)
}

func (r *running) clientEnds() error {
	select {
	case err := <-r.ended:
		return err
	case <-time.After(clientPatience):
		r.stop()
		return <-r.ended
	}
}

// abandon ends a sandbox that has not been allowed to start its command, and
// waits for the end.
func (r *running) abandon() {
	if r.runner != nil {
		_ = r.runner.Close()
	}
	known := r.Held()
	r.Abandon()
	if r.dog != nil {
		r.dog.Close()
	}
	if !known {
		r.stop()
	}
	_ = r.clientEnds()
	r.stop()
	if !known { // the daemon may still be creating it
		_, _ = r.client.say("rm", "--force", "--volumes", r.name)
	}
}

// limited keeps the last maxShown bytes written to it, because a client prints
// warnings before the error.
type limited struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Write(p)
	l.kept.Next(max(0, l.kept.Len()-maxShown))
	return len(p), nil
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return shown(l.kept.Bytes())
}

// lent are the descriptors for the shim, and those of them to close in this
// process.
type lent struct {
	descriptors handover.Descriptors
	ours        []*os.File
}

// lend opens the descriptors. status is the runner's end of the shim's reports,
// release that of the byte for which the shim waits.
func lend(s sandbox.Spec) (status *os.File, d *lent, release *os.File, err error) {
	d = &lent{descriptors: handover.Descriptors{s.Stdin, s.Stdout, s.Stderr}}
	status, statusW, err1 := os.Pipe()
	releaseR, release, err2 := os.Pipe()
	null, err3 := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	d.ours = []*os.File{statusW, releaseR, null}
	if err := errors.Join(err1, err2, err3); err != nil {
		d.ours = append(d.ours, status, release)
		d.close()
		return nil, nil, nil, err
	}
	for i, f := range d.descriptors[:3] {
		if f == nil {
			d.descriptors[i] = null
		}
	}
	d.descriptors[3], d.descriptors[4] = statusW, releaseR
	return status, d, release, nil
}

// close closes the lent descriptors. It may be called again.
func (d *lent) close() {
	for _, f := range d.ours {
		_ = f.Close() // Close of nil returns an error and does nothing
	}
}

var nameForm = lazyregexp.New(`\A` + namePrefix + `[a-z2-7]{26}\z`)

// bury removes sandboxes of this user's killed runs, whose directory is gone.
// An image can set the same labels, so the name must also be one that ebb
// generates.
func (c *client) bury() error {
	text, err := c.say("ps", "--all", "--no-trunc", "--filter", "label="+labelUser+"="+strconv.Itoa(os.Geteuid()), "--format", `{{.Names}} {{.Label "`+labelKeep+`"}}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		name, keep, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !nameForm.MatchString(name) || !filepath.IsAbs(keep) {
			continue
		}
		if _, err := os.Lstat(keep); errors.Is(err, fs.ErrNotExist) {
			_, _ = c.say("rm", "--force", "--volumes", name) // the next run tries again if it fails
		}
	}
	return nil
}
