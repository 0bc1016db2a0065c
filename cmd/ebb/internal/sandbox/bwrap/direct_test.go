//go:build linux

package bwrap_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// TestDirect: a program without proxy support reaches a host by its name and
// port, through the tunnel, without capabilities. A host that the tunnel
// refuses is not reachable.
//
//ebb:invariant I6 A program without proxy support receives only the bytes of an accepted tunnel, and no text of a refusal
func TestDirect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	given := filepath.Join(t.TempDir(), "out")
	if err := os.Mkdir(given, 0o711); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(given, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(filepath.Join(given, "out"), 0o666); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				r, err := http.ReadRequest(in)
				if err != nil || r.Method != http.MethodConnect || strings.HasPrefix(r.Host, "refused.") {
					_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+r.Host+" ")
				_, _ = io.Copy(c, in)
			}()
		}
	}()
	dir, err := sandbox.OpenSocketDir(filepath.Join(given, "out"), uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	b.Spec.Sockets = map[string]*os.File{"out": dir}
	if b.Spec.Direct, err = sandbox.Directs([]string{"b.test:8443", "a.test:443", "a.test:80", "refused.test:443"}); err != nil {
		t.Fatal(err)
	}
	out := b.Sh(`for at in "a.test 443" "a.test 80" "b.test 8443" "refused.test 443" "a.test 22"; do
		set -- $at; python3 - $1 $2 <<-END
		import socket, sys
		try:
		    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
		    s.sendall(b"echo"); s.shutdown(socket.SHUT_WR)
		    print(s.makefile("rb").read().decode())
		except OSError as e:
		    print(type(e).__name__)
		END
		done; grep CapEff /proc/self/status; cat /etc/hosts`)
	if !strings.HasPrefix(out, "a.test:443 echo\na.test:80 echo\nb.test:8443 echo\n") || !strings.Contains(out, "ConnectionRefusedError\nCapEff:\t0000000000000000\n") || strings.Contains(out, "refused.test:443") || strings.Contains(out, "no\n") {
		t.Errorf("%s", out)
	}
	if !strings.Contains(out, "127.1.0.1 a.test\n") || !strings.Contains(out, "127.1.0.2 b.test\n") {
		t.Errorf("%s", out)
	}
}
