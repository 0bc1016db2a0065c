package sshagent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
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

// HostKeys are the keys of one host: its own keys, and CAs of its certificates.
// Without either, every key is accepted for the host.
type HostKeys struct {
	host string // name and port
	keys []ssh.PublicKey
	cas  []ssh.PublicKey
}

// ParseHostKeys parses lines of a known_hosts file (sshd(8)), all of one host.
func ParseHostKeys(name string, port uint16, text []byte) (HostKeys, error) {
	h := HostKeys{host: net.JoinHostPort(name, strconv.Itoa(int(port)))}
	for len(bytes.TrimSpace(text)) > 0 {
		marker, hosts, key, _, rest, err := ssh.ParseKnownHosts(text)
		if err != nil {
			return HostKeys{}, fmt.Errorf("parse the keys of %s: %w", h.host, err)
		}
		text = rest
		if !slices.Equal(hosts, []string{knownhosts.Normalize(h.host)}) {
			return HostKeys{}, fmt.Errorf("the keys of %s name another host", h.host)
		}
		switch marker {
		case "":
			h.keys = append(h.keys, key)
		case "cert-authority":
			h.cas = append(h.cas, key)
		default:
			return HostKeys{}, fmt.Errorf("the keys of %s: the marker %q is unknown", h.host, marker)
		}
	}
	return h, nil
}

// Pinned reports whether keys of the host are known.
func (h HostKeys) Pinned() bool { return len(h.keys)+len(h.cas) > 0 }

// permits reports whether key belongs to the host.
func (h HostKeys) permits(key ssh.PublicKey, now func() time.Time) bool {
	is := func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) }
	cert, isCert := key.(*ssh.Certificate)
	if !isCert {
		return !h.Pinned() || slices.ContainsFunc(h.keys, is)
	}
	if !h.Pinned() {
		return true
	}
	check := ssh.CertChecker{
		Clock:           now,
		IsHostAuthority: func(ca ssh.PublicKey, _ string) bool { return has(h.cas, ca) },
		HostKeyFallback: func(string, net.Addr, ssh.PublicKey) error { return errors.New("no certificate") },
	}
	// x/crypto accepts a certificate without principals for every host.
	return len(cert.ValidPrincipals) > 0 && check.CheckHostKey(h.host, nil, cert) == nil
}

func has(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// pinned reports whether keys are known for all hosts.
func pinned(hosts []HostKeys) bool {
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h HostKeys) bool { return !h.Pinned() })
}

func (a *Agent) permits(hosts []HostKeys, key ssh.PublicKey) bool {
	return !pinned(hosts) || slices.ContainsFunc(hosts, func(h HostKeys) bool { return h.permits(key, a.cfg.Now) })
}
