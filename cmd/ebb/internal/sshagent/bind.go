package sshagent

import (
	"bytes"
	"errors"

	"golang.org/x/crypto/ssh"
)

// extensionBind is how a client says which session its connection to the agent is for
// (PROTOCOL.agent section 1).
const extensionBind = "session-bind@openssh.com"

// bindRequest is its contents.
type bindRequest struct {
	HostKey    []byte
	Session    []byte
	Signature  []byte // of the session id, by the host key
	Forwarding bool
}

// binding is the session that a connection is for: the host has signed its id.
type binding struct {
	session []byte
	host    ssh.PublicKey
}

var (
	errBind      = errors.New("what should bind the connection to a session does not")
	errBound     = errors.New("the connection is bound to another session")
	errForwarded = errors.New("the agent is forwarded to a host")
	errUnbound   = errors.New("the client does not say which host it logs in at: it takes OpenSSH 8.9")
	errHost      = errors.New("the host is another than the certificate is for")
)

// parseBind reads a binding and checks that the host has signed it.
func parseBind(contents []byte) (*binding, error) {
	var r bindRequest
	if ssh.Unmarshal(contents, &r) != nil || !bytes.Equal(ssh.Marshal(r), contents) || len(r.Session) < minSession || len(r.Session) > maxSession {
		return nil, errBind
	}
	key, err := ssh.ParsePublicKey(r.HostKey)
	if err != nil || !bytes.Equal(key.Marshal(), r.HostKey) {
		return nil, errBind
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal(r.Signature, &signature); err != nil {
		return nil, errBind
	}
	// SHA-1 proves nothing, and DSA is dead.
	if signature.Format == ssh.KeyAlgoRSA || signature.Format == "ssh-dss" || key.Verify(r.Session, &signature) != nil {
		return nil, errBind
	}
	if r.Forwarding {
		return nil, errForwarded
	}
	return &binding{session: r.Session, host: key}, nil
}

// bind binds a connection, once.
func (c *conn) bind(contents []byte) error {
	b, err := parseBind(contents)
	if err != nil {
		return err
	}
	if c.bound != nil && (!bytes.Equal(c.bound.session, b.session) || !bytes.Equal(c.bound.host.Marshal(), b.host.Marshal())) {
		return errBound
	}
	c.bound = b
	return nil
}

// fits refuses a login that is not of the session that the connection is for, and, where the
// keys of its hosts are known, one that is of no session with one of them.
func (c *conn) fits(l login, hosts []HostKeys) error {
	if c.bound == nil {
		if pinned(hosts) {
			return errUnbound
		}
		return nil
	}
	if !bytes.Equal(l.Session, c.bound.session) || l.Method == methodBound && !bytes.Equal(l.HostKey, c.bound.host.Marshal()) {
		return errBound
	}
	if !c.a.permits(hosts, c.bound.host) {
		return errHost
	}
	return nil
}
