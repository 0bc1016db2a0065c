package egress

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// door is the listener of a box. Nobody is let in before it is said who belongs to it,
// and nobody else afterwards. Who comes too early waits.
type door struct {
	*net.UnixListener
	dir     string
	strange func(namespace uint64, err error)

	mu     sync.Mutex
	who    func(peer) error // nil = not said yet
	ns     uint64
	said   chan struct{} // closed when who is there, or nobody ever will be
	closed bool
	pinned int // descriptor of the namespace, so that its number stays its own; -1 = none
}

// socketName is what the socket is called in its directory.
const socketName = "out"

// listen makes the socket of a box, in a directory of its own: that is what is mounted
// into the box, so that nobody there can put another socket in its place. Outside, only
// ebb's user gets as far as there; inside, any user may connect, and who that is, is
// asked of the kernel.
func listen(dir, id string) (*door, error) {
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
	d := &door{UnixListener: l, dir: own, said: make(chan struct{}), pinned: -1}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *door) path() string { return filepath.Join(d.dir, socketName) }

// admit says who is let in, once.
func (d *door) admit(who func(peer) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.who == nil && !d.closed {
		d.who = who
		close(d.said)
	}
}

// register lets in who is in a network namespace.
func (d *door) register(namespace uint64) {
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

// registered is the namespace, once it is said.
func (d *door) registered() (uint64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ns, d.ns != 0
}

func (d *door) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.who != nil && !d.closed
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	<-d.said
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

// admits asks the kernel who has connected, and closes the connection of who is not let in.
func (d *door) admits(c *net.UnixConn) bool {
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

// pin keeps the namespace of the first who came: as long as somebody holds it, its
// number is given to no other.
func (d *door) pin(p peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pinned >= 0 || d.closed {
		p.release()
		return
	}
	d.pinned = p.fd
}

// Close implements net.Listener. It removes the socket and its directory.
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.who == nil {
		close(d.said)
	}
	peer{fd: d.pinned}.release()
	return errors.Join(d.UnixListener.Close(), os.Remove(d.dir))
}
