package demo

import (
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// hostScope is the scope of a login on the SSH host.
const hostScope = SSHProvider + ":" + hostGroup + "/" + hostLogin + ":login"

// logIn gets a credential for a system that never calls ebb.
func (s *stage) logIn() error {
	s.act("A login on a host that does not call ebb")
	if err := s.expect(s.Host.serve(s.ctx, s.Issuer, s.HTTP), "an SSH host trusts ebb's CA and fetches its revocation list: %s", s.Host.Addr); err != nil {
		return err
	}
	if err := s.sandbox.enc.Encode(order{Do: "certify", Scope: hostScope}); err != nil {
		return err
	}
	req, err := s.waiting()
	if err == nil {
		err = s.atConsole(req, wire.ApprovalBody{})
	}
	if err := s.expect(err, "the sandbox generates an SSH key and requests %s; ann approves", hostScope); err != nil {
		return err
	}
	r, err := s.sandbox.hear()
	if err = good(r, err); err == nil && r.Scope != hostScope {
		err = fmt.Errorf("it got the scope %s", r.Scope)
	}
	if err := s.expect(err, "it gets a certificate over that key for %s", short(r.TTL)); err != nil {
		return err
	}
	r, err = s.enter(hostLogin)
	if err = good(r, err); err == nil && r.Out != hostGroup+": uptime\n" {
		err = fmt.Errorf("the host returned %q", r.Out)
	}
	if err := s.expect(err, "with the certificate it logs in as %s at %s and runs a command", hostLogin, hostGroup); err != nil {
		return err
	}
	return s.expect(s.shut(s.enter("root")), "a login as root is refused")
}

func (s *stage) enter(login string) (reply, error) {
	return s.sandbox.tell(order{Do: "login", Host: s.Host.Addr, Key: s.Host.Key(), Login: login})
}

// shut returns an error unless the host refused the login.
func (s *stage) shut(r reply, err error) error {
	if err == nil && r.Error == "" {
		return errors.New("the login was accepted")
	}
	return err
}

// lockedOut checks that the host refuses the certificate, and that the lease
// records it.
func (s *stage) lockedOut() error {
	if err := s.expect(s.shut(s.enter(hostLogin)), "the SSH host refuses the certificate"); err != nil {
		return err
	}
	list, err := s.auditor.Credentials.List(s.ctx, client.CredentialFilter{TaskID: s.task, Provider: SSHProvider})
	if err == nil && (len(list.Items) != 1 || list.Items[0].Upstream == nil) {
		err = fmt.Errorf("the lease list has %d certificates", len(list.Items))
	}
	if err != nil {
		return s.expect(err, "the auditor reads the certificate's lease")
	}
	l := list.Items[0]
	if l.State != wire.LeaseRevoked {
		err = fmt.Errorf("its state is %s", l.State)
	}
	return s.expect(err, "its lease is %s, refused by its hosts since %s (%s)", l.State, l.Upstream.DeadAt.UTC().Format("15:04:05.000"), l.Upstream.Proof)
}
