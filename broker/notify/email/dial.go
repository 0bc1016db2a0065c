package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// maxSaid is the maximum number of bytes that a server may send in one conversation.
const maxSaid = 64 << 10

// errPlain means that the server does not offer encryption.
var errPlain = errors.New("the mail server offers no STARTTLS, and is not on this machine: nothing was sent")

// connect opens an encrypted connection, or an unencrypted one on loopback.
func (s *Sender) connect(ctx context.Context) (*smtp.Client, func(), error) {
	conn, err := fetch.Dial(ctx, s.addr, fetch.Config{Private: s.cfg.Private, Timeout: s.cfg.Timeout / 2})
	if err != nil {
		return nil, nil, fmt.Errorf("the mail server cannot be reached: %w", err)
	}
	// The end of ctx ends the conversation with a server that does not answer.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	done := func() { stop(); _ = conn.Close() }
	encrypted := &tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	bounded := &bounded{Conn: conn, left: maxSaid}
	var c *smtp.Client
	if s.implicit {
		c, err = smtp.NewClient(tls.Client(bounded, encrypted), s.host)
	} else {
		c, err = smtp.NewClient(bounded, s.host)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("the mail server does not greet: %w", said(err))
	}
	err = c.Hello("localhost")
	if err == nil && !s.implicit {
		can, _ := c.Extension("STARTTLS")
		switch {
		case can && (!s.local() || s.roots != nil):
			err = c.StartTLS(encrypted)
		case !s.local():
			err = errPlain
		}
	}
	if err != nil {
		done()
		return nil, nil, said(err)
	}
	return c, done, nil
}

// bounded ends the conversation with a server that sends too much. It counts the bytes of
// TLS.
type bounded struct {
	net.Conn
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
