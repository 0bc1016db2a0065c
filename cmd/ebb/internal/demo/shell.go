package demo

import (
	"errors"
	"fmt"

	"ebb/broker"
)

// hostScope is a login on the SSH host.
const hostScope = SSHProvider + ":" + hostGroup + "/" + hostLogin + ":login"

// logIn: a credential for somebody else's system, which never asks ebb.
func (s *stage) logIn() error {
	s.act("A login on a host that does not know ebb")
	if err := s.expect(s.Host.serve(s.ctx, s.Issuer, s.HTTP), "an SSH host trusts ebb's CA and fetches its revocation list: %s", s.Host.Addr); err != nil {
		return err
	}
	if err := s.sandbox.enc.Encode(order{Do: "certify", Scope: hostScope}); err != nil {
		return err
	}
	req, err := s.waiting()
	if err == nil {
		err = s.atConsole(req, broker.Verdict{})
	}
	if err := s.expect(err, "the sandbox makes an SSH key and asks for %s; ann approves", hostScope); err != nil {
		return err
	}
	r, err := s.sandbox.hear()
	if err = good(r, err); err == nil && r.Scope != hostScope {
		err = fmt.Errorf("it got %s", r.Scope)
	}
	if err := s.expect(err, "it gets a certificate over that key for %s", short(r.TTL)); err != nil {
		return err
	}
	r, err = s.enter(hostLogin)
	if err = good(r, err); err == nil && r.Out != hostGroup+": uptime\n" {
		err = fmt.Errorf("the host says %q", r.Out)
	}
	if err := s.expect(err, "with it %s logs in at %s and runs a command", hostLogin, hostGroup); err != nil {
		return err
	}
	return s.expect(s.shut(s.enter("root")), "as root it does not")
}

func (s *stage) enter(login string) (reply, error) {
	return s.sandbox.tell(order{Do: "login", Host: s.Host.Addr, Key: s.Host.Key(), Login: login})
}

// shut is nil when the host refused.
func (s *stage) shut(r reply, err error) error {
	if err == nil && r.Error == "" {
		return errors.New("it was let in")
	}
	return err
}

// lockedOut: the host refuses the certificate, and the record knows how.
func (s *stage) lockedOut() error {
	if err := s.expect(s.shut(s.enter(hostLogin)), "the SSH host refuses the certificate"); err != nil {
		return err
	}
	list, err := s.auditor.Leases(s.ctx, broker.LeaseFilter{TaskID: s.task, Provider: SSHProvider})
	if err == nil && (len(list.Items) != 1 || list.Items[0].Upstream == nil) {
		err = fmt.Errorf("%d certificates are on the record", len(list.Items))
	}
	if err != nil {
		return s.expect(err, "the record says what became of it")
	}
	l := list.Items[0]
	if l.State != broker.LeaseRevoked {
		err = fmt.Errorf("its state is %s", l.State)
	}
	return s.expect(err, "on the record it is %s, refused by its hosts since %s (%s)", l.State, l.Upstream.DeadAt.UTC().Format("15:04:05.000"), l.Upstream.Proof)
}
