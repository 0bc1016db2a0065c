package http1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/http1"
)

// segments is a connection. While hold is set it keeps the written data, so that several TLS records
// arrive together.
type segments struct {
	net.Conn
	hold bool
	kept []byte
}

// Write implements io.Writer.
func (s *segments) Write(p []byte) (int, error) {
	if s.kept = append(s.kept, p...); s.hold {
		return len(p), nil
	}
	kept := s.kept
	s.kept = nil
	_, err := s.Conn.Write(kept)
	return len(p), err
}

// SetWriteDeadline implements net.Conn. tls.Conn.CloseWrite would block later writes with it.
func (s *segments) SetWriteDeadline(time.Time) error { return nil }

// overTLS starts an upstream with TLS of one version, and returns a client for it.
func overTLS(t *testing.T, version uint16, do func(n int64, raw *segments, c *tls.Conn, r *bufio.Reader)) (*script, *http1.Client) {
	t.Helper()
	pair := httptest.NewTLSServer(nil)
	pair.Close()
	own, theirs := pair.TLS.Clone(), pair.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	own.MinVersion, own.MaxVersion, own.NextProtos, theirs.ServerName = version, version, nil, "example.com"
	s := serve(t, func(n int64, c net.Conn, _ *bufio.Reader) {
		raw := &segments{Conn: c}
		end := tls.Server(raw, own)
		do(n, raw, end, bufio.NewReader(end))
	})
	return s, s.clientTLS(theirs)
}

// clientTLS returns a client that uses TLS.
func (s *script) clientTLS(config *tls.Config) *http1.Client {
	c := s.client()
	dial := c.Dial
	c.Dial = func(ctx context.Context) (net.Conn, error) {
		n, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		end := tls.Client(n, config)
		return end, end.HandshakeContext(ctx)
	}
	return c
}

// Data in further TLS records that arrive together with a response is not the response to the next
// request, and a close_notify there ends the connection.
func TestRecordsAfterAResponse(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, after := range map[string]func(*tls.Conn) error{
			"a response": func(c *tls.Conn) error {
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
				return err
			},
			"a byte":       func(c *tls.Conn) error { _, err := io.WriteString(c, "\n"); return err },
			"close_notify": (*tls.Conn).CloseWrite,
		} {
			for _, head := range []string{ok, "HTTP/1.1 204 No Content\r\n\r\n"} {
				_, c := overTLS(t, version, func(n int64, raw *segments, c *tls.Conn, r *bufio.Reader) {
					for take(r) {
						raw.hold = n == 1
						_, err := io.WriteString(c, head)
						if raw.hold {
							err = after(c)
							raw.hold = false
							_, _ = raw.Write(nil)
						}
						if err != nil {
							return
						}
					}
				})
				for range 3 {
					if text, err := send(t, c, "POST", "b"); err != nil || text != "ok" && head == ok || text != "" && head != ok {
						t.Errorf("%s %q with %s: %q %v", tls.VersionName(version), head, name, text, err)
					}
				}
				c.CloseIdleConnections()
			}
		}
	}
}
