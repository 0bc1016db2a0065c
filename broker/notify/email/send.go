package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
)

// Send implements notify.Sender.
func (s *Sender) Send(ctx context.Context, m notify.Message) (string, error) {
	to := s.to
	if m.To != "" {
		a, err := address(m.To)
		if err != nil {
			return "", fmt.Errorf("%w: the person's address: %w", notify.ErrRefused, err)
		}
		to = []string{a.Address}
	}
	if len(to) == 0 {
		return "", fmt.Errorf("%w: no recipient's address is known", notify.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c, done, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	unknown, err := s.converse(c, s.compose(m, to), to)
	if err != nil {
		return "", err
	}
	_ = c.Quit() // the mail is accepted, even if QUIT fails
	if unknown > 0 {
		return fmt.Sprintf("the mail server took it, and refused %d of %d addresses", unknown, len(to)), nil
	}
	return "the mail server took it", nil
}

// converse sends one mail, and returns how many addresses the server refused permanently:
// an address of a person who left a team must not stop the mail to the others. Any other
// failure for an address ends the conversation before the text is sent, so that no
// recipient gets the mail twice.
func (s *Sender) converse(c *smtp.Client, text []byte, to []string) (unknown int, err error) {
	if s.cfg.Username != "" {
		if _, encrypted := c.TLSConnectionState(); !encrypted {
			return 0, errors.New("the connection is not encrypted, so the password was not sent: use smtps, or name ca_file on loopback")
		}
		if err := c.Auth(smtp.PlainAuth("", s.cfg.Username, s.password.Reveal(), s.host)); err != nil {
			return 0, fmt.Errorf("logging in: %w", said(err))
		}
	}
	if err := c.Mail(s.from.Address); err != nil {
		return 0, final(err)
	}
	for _, a := range to {
		err := final(c.Rcpt(a))
		if err == nil {
			continue
		}
		if unknown++; unknown == len(to) || !errors.Is(err, notify.ErrRefused) {
			return 0, err
		}
	}
	w, err := c.Data()
	if err == nil {
		if _, err = w.Write(text); err == nil {
			err = w.Close()
		}
	}
	return unknown, final(err)
}

// said reduces a server's answer to its code (RFC 5321, section 4.2). The text is untrusted
// and may repeat the mail.
func said(err error) error {
	if e, is := errors.AsType[*textproto.Error](err); is {
		return fmt.Errorf("the mail server answered %d", e.Code)
	}
	if _, is := errors.AsType[textproto.ProtocolError](err); is {
		return errors.New("the mail server does not speak SMTP")
	}
	return err
}

// final returns the error of a server that refuses the sender, a recipient or the mail itself. The
// codes 550 to 559 are permanent: the error wraps notify.ErrRefused, and ebb does not try again. A
// failed login or TLS handshake is not permanent, because the operator can repair its cause.
func final(err error) error {
	if e, is := errors.AsType[*textproto.Error](err); is && e.Code >= 550 && e.Code <= 559 {
		return fmt.Errorf("%w: %w", notify.ErrRefused, said(err))
	}
	return said(err)
}

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
	bounded := bounded{conn, io.LimitReader(conn, maxSaid)}
	var c *smtp.Client
	if s.implicit {
		c, err = smtp.NewClient(tls.Client(bounded, encrypted), s.host)
	} else {
		c, err = smtp.NewClient(bounded, s.host)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("the mail server sent no greeting: %w", said(err))
	}
	err = c.Hello("localhost")
	if err == nil && !s.implicit {
		can, _ := c.Extension("STARTTLS")
		local := fetch.Loopback(s.host) // no network lies in between
		switch {
		case can && (!local || s.roots != nil):
			err = c.StartTLS(encrypted)
		case !local:
			err = errPlain
		}
	}
	if err != nil {
		done()
		return nil, nil, said(err)
	}
	return c, done, nil
}

// bounded is a connection whose reads end after the limit of from, so that a server cannot send
// without end. The limit includes the bytes of TLS.
type bounded struct {
	net.Conn
	from io.Reader
}

// Read implements io.Reader.
func (b bounded) Read(p []byte) (int, error) { return b.from.Read(p) }
