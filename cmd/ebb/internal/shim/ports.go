//go:build linux

package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxCarried is the maximum number of connections of a port at one time.
// Further ones wait.
const maxCarried = 256

// carry listens on an address of the sandbox's loopback and forwards each
// connection to a socket. With a host it opens a tunnel to the host there
// first.
func carry(address, socket, host string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen in the sandbox: %w", err)
	}
	slots := make(chan struct{}, maxCarried)
	go func() {
		for {
			slots <- struct{}{}
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // no descriptor is free: retry
				<-slots
				time.Sleep(10 * time.Millisecond)
				continue
			}
			go func() {
				defer func() { <-slots }()
				splice(c, socket, host)
			}()
		}
	}()
	return nil
}

// splice copies in both directions until both have ended. The end of one
// direction is passed on by itself.
func splice(in net.Conn, socket, host string) {
	defer in.Close()
	out, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer out.Close()
	if host != "" && tunnel(out, host) != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { half(out, in) })
	wg.Go(func() { half(in, out) })
	wg.Wait()
}

// maxHead is the maximum size in bytes of the head of a response to CONNECT.
const maxHead = 8 << 10

// tunnel requests a tunnel to a host (RFC 9110 section 9.3.6). It reads only
// the head of the response: the bytes after the empty line are those of the
// tunnel.
func tunnel(c net.Conn, host string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", host); err != nil {
		return err
	}
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
		if _, err := io.ReadFull(c, one); err != nil || len(head) == maxHead {
			return errors.Join(errors.New("the response to CONNECT is incomplete or longer than 8 KiB"), err)
		}
	}
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) { // RFC 9112 section 4
		return fmt.Errorf("the response to CONNECT is %q, not a status line with 200", line)
	}
	return nil
}

// half copies one direction and closes it for writing at its end.
func half(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil { // a broken connection must not look like a regular end
		_ = from.Close()
		_ = to.Close()
		return
	}
	if w, can := to.(interface{ CloseWrite() error }); can {
		_ = w.CloseWrite()
	}
}
