//go:build linux

package shim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// maxCarried is how many connections a port carries at one time. Those beyond wait.
const maxCarried = 256

// carry listens on a port of the box's loopback and takes each connection to a socket.
func carry(port int, socket string) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	slots := make(chan struct{}, maxCarried)
	go func() {
		for {
			slots <- struct{}{}
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // no descriptor is free: one will be
				<-slots
				time.Sleep(10 * time.Millisecond)
				continue
			}
			go func() {
				defer func() { <-slots }()
				splice(c, socket)
			}()
		}
	}()
	return nil
}

// splice copies both ways until both have ended. Each end of one way is passed on by itself.
func splice(in net.Conn, socket string) {
	defer in.Close()
	out, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer out.Close()
	var wg sync.WaitGroup
	wg.Go(func() { half(out, in) })
	wg.Go(func() { half(in, out) })
	wg.Wait()
}

// half copies one way and says that it is over.
func half(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil { // a connection that broke is not one that ended
		_ = from.Close()
		_ = to.Close()
		return
	}
	if w, can := to.(interface{ CloseWrite() error }); can {
		_ = w.CloseWrite()
	}
}
