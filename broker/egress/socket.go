package egress

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
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
var socketDirs = lazyregexp.New(`^[0-9a-f]{16}$`)

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

// endpointListener is the listener of an endpoint.
type endpointListener interface {
	net.Listener
	open() bool
}

// acceptPause is how long Serve waits after a failed Accept, for example for lack of descriptors.
const acceptPause = 100 * time.Millisecond
