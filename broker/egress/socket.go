package egress

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/broker/owndir"
)

// socketListener is the listener of a socket of an endpoint. It accepts nothing before admit, and
// then only the peers that admit names. Earlier connections wait.
type socketListener struct {
	*net.UnixListener
	dir     string
	strange func(namespace uint64, err error)

	mu      sync.Mutex
	who     func(peer) error // nil = admit was not called
	ns      uint64
	decided chan struct{} // closed by admit or Close
	closed  bool
	pinned  int // descriptor of the namespace, so that its inode is not reused; -1 = none
}

// socketName is the file name of the socket.
const socketName = "out"

// listenSocket creates the Unix socket of an endpoint in a directory of its own. That directory is
// mounted into the sandbox with mode 0711, so no process in the sandbox can replace the socket.
// Outside the sandbox only the user of ebb can reach the directory. Inside it any user may connect;
// the kernel then reports the peer (peerOf).
func listenSocket(dir, id string) (*socketListener, error) {
	own := filepath.Join(dir, id[len(id)-16:])
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(own, socketDirMode); err != nil {
		return nil, errors.Join(err, os.Remove(own))
	}
	path := filepath.Join(own, socketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, errors.Join(err, os.Remove(own))
	}
	d := &socketListener{UnixListener: l, dir: own, decided: make(chan struct{}), pinned: -1}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *socketListener) path() string { return filepath.Join(d.dir, socketName) }

// admit sets which peers are admitted. Only the first call counts.
func (d *socketListener) admit(who func(peer) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.who == nil && !d.closed {
		d.who = who
		close(d.decided)
	}
}

// register admits the peers in a network namespace.
func (d *socketListener) register(namespace uint64) {
	d.mu.Lock()
	d.ns = namespace
	d.mu.Unlock()
	d.admit(func(p peer) error {
		if p.namespace != namespace {
			return errOtherNamespace
		}
		return nil
	})
}

// registered returns the namespace of register.
func (d *socketListener) registered() (uint64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ns, d.ns != 0
}

func (d *socketListener) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.who != nil && !d.closed
}

// Accept implements net.Listener.
func (d *socketListener) Accept() (net.Conn, error) {
	<-d.decided
	for {
		c, err := d.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if d.admits(c) {
			return c, nil
		}
	}
}

// admits checks the peer of a connection, and closes the connection if the peer is not admitted.
func (d *socketListener) admits(c *net.UnixConn) bool {
	d.mu.Lock()
	who, ns := d.who, d.ns
	d.mu.Unlock()
	if who != nil && ns == 0 {
		return true
	}
	if who == nil {
		_ = c.Close()
		return false
	}
	p, err := peerOf(c)
	if err == nil {
		err = who(p)
	}
	if err != nil {
		_ = c.Close()
		p.release()
		d.strange(p.namespace, err)
		return false
	}
	d.pin(p)
	return true
}

// pin keeps the namespace of the first peer open, so that the kernel does not reuse its inode.
func (d *socketListener) pin(p peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pinned >= 0 || d.closed {
		p.release()
		return
	}
	d.pinned = p.fd
}

// Close implements net.Listener. It removes the socket and its directory.
func (d *socketListener) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.who == nil {
		close(d.decided)
	}
	peer{fd: d.pinned}.release()
	return errors.Join(d.UnixListener.Close(), os.Remove(d.dir))
}

// socketDirs matches the names of directories of sockets: those of this process, and those that a
// killed process left.
var socketDirs = regexp.MustCompile(`^[0-9a-f]{16}$`)

const socketDirMode = 0o711

// clearSockets makes the directory of all sockets and removes what an earlier process left in it. A
// directory that others can enter or change is refused, because they could replace a socket.
// Entries that ebb would not create are left alone.
func clearSockets(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := owndir.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if socketDirs.MatchString(e.Name()) {
			clearSocket(root, e.Name())
		}
	}
	return nil
}

// clearSocket removes the socket of an earlier process, with its directory.
func clearSocket(root *os.Root, name string) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() || !slices.Contains([]fs.FileMode{0o700, socketDirMode}, info.Mode().Perm()) || !owndir.Ours(info) {
		return
	}
	in, err := fs.ReadDir(root.FS(), name)
	if err != nil || len(in) == 1 && (in[0].Name() != socketName || in[0].Type() != fs.ModeSocket) {
		return
	}
	if len(in) == 1 {
		_ = root.Remove(name + "/" + socketName)
	}
	_ = root.Remove(name)
}

// peer is the process that connected to a socket, as the kernel recorded it at that time.
type peer struct {
	namespace uint64 // inode of its network namespace; 0 = unknown
	fd        int    // descriptor of the namespace; -1 = none
}

// kernel is what the kernel of this machine can report about peers.
type kernel struct {
	own uint64 // the namespace of this process
	err error  // why it can report nothing
}

var errOtherNamespace = errors.New("the peer is in another network namespace than the registered one")

// forwardedListener accepts the connections of a sandbox that connects to a socket of its runner,
// on this machine (broker.BoxSpec.Forward). That socket outlives a restart of ebb. The runner
// passes the descriptor of each connection over the socket of the endpoint (unix(7), SCM_RIGHTS).
// The kernel still reports the process that connected as the peer, so that ebb need not trust the
// runner.
type forwardedListener struct {
	*socketListener
	conns chan *net.UnixConn
	gone  chan struct{} // closed by Close

	mu     sync.Mutex
	runner *net.UnixConn // sends the descriptors; nil = no runner is connected
	closed bool
}

func newForwardedListener(d *socketListener) *forwardedListener {
	f := &forwardedListener{socketListener: d, conns: make(chan *net.UnixConn), gone: make(chan struct{})}
	go f.run()
	return f
}

// run serves the connections of the runner, one at a time.
func (f *forwardedListener) run() {
	<-f.decided
	for {
		runner, err := f.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is free: wait for one
			time.Sleep(acceptPause)
		case f.connected(runner):
			f.take(runner)
			_ = runner.Close()
		}
	}
}

// connected registers the connection of the runner so that Close closes it. It returns false if
// Close has already run.
func (f *forwardedListener) connected(runner *net.UnixConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = runner.Close()
		return false
	}
	f.runner = runner
	return true
}

// take accepts the connections that the runner passes, until the runner's connection ends. At most
// one accepted connection waits here; further ones wait in the runner.
func (f *forwardedListener) take(runner *net.UnixConn) {
	for {
		c, err := received(runner)
		if err != nil {
			return
		}
		// Nothing has been read from c yet. After this byte the runner does not pass c again.
		if _, err := runner.Write([]byte{taken}); err != nil {
			_ = c.Close()
			return
		}
		if !f.admits(c) {
			continue
		}
		select {
		case f.conns <- c:
		case <-f.gone:
			_ = c.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (f *forwardedListener) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.gone:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *forwardedListener) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	close(f.gone)
	if f.runner != nil {
		_ = f.runner.Close()
	}
	return f.socketListener.Close()
}

// socketListenerOf returns the socket of an endpoint on this machine; nil = the sandbox is on
// another machine.
func socketListenerOf(e endpointListener) *socketListener {
	switch e := e.(type) {
	case *socketListener:
		return e
	case *forwardedListener:
		return e.socketListener
	}
	return nil
}

// taken is the byte with which ebb acknowledges a passed connection.
const taken = 1

// Pass passes a connection of a sandbox to ebb over to, a connection to broker.Box.Socket. When
// Pass returns nil, ebb serves the connection and the caller closes c. After an error, ebb has read
// nothing from c, and to must not be used again.
func Pass(to, c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) {
		_, _, err = to.WriteMsgUnix([]byte{taken}, unix.UnixRights(int(fd)), nil)
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return err
	}
	if n, err := to.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("ebb did not acknowledge the connection: %w", err)
	}
	return nil
}

// received receives one connection that Pass has sent.
func received(from *net.UnixConn) (*net.UnixConn, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, got, flags, _, err := from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:got])
	if n != 1 || err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("the runner passed no file descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	var c net.Conn
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "passed")
		if c == nil {
			c, err = net.FileConn(file)
		}
		_ = file.Close()
	}
	u, is := c.(*net.UnixConn)
	if is && flags&syscall.MSG_CTRUNC == 0 {
		return u, nil
	}
	if c != nil {
		_ = c.Close()
	}
	return nil, errors.Join(errors.New("the file descriptor passed by the runner is not a Unix socket"), err)
}

// endpointListener is the listener of an endpoint.
type endpointListener interface {
	net.Listener
	open() bool
}

// acceptPause is how long Serve waits after a failed Accept, for example for lack of descriptors.
const acceptPause = 100 * time.Millisecond
