//go:build linux

package shim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxCarried is how many connections a port carries at one time. Those beyond wait.
const maxCarried = 256

// carry listens on an address of the box's loopback and takes each connection to a socket; host:
// and through a tunnel there to a host, "" = no tunnel.
func carry(address, socket, host string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening in the box: %w", err)
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
				splice(c, socket, host)
			}()
		}
	}()
	return nil
}

// splice copies both ways until both have ended. Each end of one way is passed on by itself.
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

// maxHead is how long the head of an answer to CONNECT may be.
const maxHead = 8 << 10

// tunnel asks for a way to a host (RFC 9110 section 9.3.6). Whoever is asked speaks first only
// about that: what follows the empty line is not read here.
func tunnel(c net.Conn, host string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", host); err != nil {
		return err
	}
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
		if _, err := io.ReadFull(c, one); err != nil || len(head) == maxHead {
			return errors.Join(errors.New("no answer to CONNECT"), err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return err
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
