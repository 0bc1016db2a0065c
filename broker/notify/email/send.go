package email

import (
	"context"
	"errors"
	"fmt"
	"net/smtp"
	"net/textproto"

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
		return "", final(said(err))
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
			return 0, fmt.Errorf("logging in: %w", err)
		}
	}
	if err := c.Mail(s.from.Address); err != nil {
		return 0, err
	}
	for _, a := range to {
		err := c.Rcpt(a)
		if err == nil {
			continue
		}
		if unknown++; unknown == len(to) || !errors.Is(final(said(err)), notify.ErrRefused) {
			return 0, err
		}
	}
	w, err := c.Data()
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(text); err != nil {
		return 0, err
	}
	return unknown, w.Close()
}

// said reduces a server's answer to its code. The text is untrusted and may repeat the
// mail.
func said(err error) error {
	if e, is := errors.AsType[*textproto.Error](err); is {
		return &answer{e.Code}
	}
	if _, is := errors.AsType[textproto.ProtocolError](err); is {
		return errors.New("the mail server does not speak SMTP")
	}
	return err
}

// answer is a reply code of a server (RFC 5321, section 4.2).
type answer struct{ code int }

// Error implements error.
func (a *answer) Error() string { return fmt.Sprintf("the mail server answered %d", a.code) }

// final makes a permanent refusal end the attempts. A failure of login or encryption is
// for the operator to repair: the mail waits for that.
func final(err error) error {
	if a, is := errors.AsType[*answer](err); is && a.code >= 550 && a.code <= 559 {
		return fmt.Errorf("%w: %w", notify.ErrRefused, err)
	}
	return err
}
