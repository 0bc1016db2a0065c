package sshagent

import (
	"bytes"
	"errors"

	"golang.org/x/crypto/ssh"
)

// extensionBind is the extension by which a client names the session of its
// agent connection (PROTOCOL.agent section 1).
const extensionBind = "session-bind@openssh.com"

// bindRequest is the content of extensionBind.
type bindRequest struct {
	HostKey    []byte
	Session    []byte
	Signature  []byte // of the session ID, by the host key
	Forwarding bool
}

// binding is the session of a connection. The host has signed its ID.
type binding struct {
	session []byte
	host    ssh.PublicKey
}

var (
	errBind      = errors.New("the session-bind request is not valid")
	errBound     = errors.New("the connection is bound to another session")
	errForwarded = errors.New("the agent is forwarded to a host")
	errUnbound   = errors.New("the client did not name the host of the login; use OpenSSH 8.9 or newer")
	errHost      = errors.New("the certificate is not for this host")
)

// parseBind parses a session-bind request and verifies the host's signature.
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
	// Signatures with SHA-1 or DSA are not accepted.
	if signature.Format == ssh.KeyAlgoRSA || signature.Format == "ssh-dss" || key.Verify(r.Session, &signature) != nil {
		return nil, errBind
	}
	if r.Forwarding {
		return nil, errForwarded
	}
	return &binding{session: r.Session, host: key}, nil
}

// bind binds a connection to a session, once.
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

// fits refuses a login of another session than that of the connection. If the
// keys of all hosts are known, it also refuses a connection without a session,
// or with another host.
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
