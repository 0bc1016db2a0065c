package sshagent

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"
)

// Methods of a login: that of the standard, and OpenSSH's, which names the host's key.
const (
	methodPlain = "publickey"
	methodBound = "publickey-hostbound-v00@openssh.com"
)

const (
	msgUserAuth = 50               // SSH_MSG_USERAUTH_REQUEST (RFC 4252 section 6)
	service     = "ssh-connection" // RFC 4254
)

// Session ids are hashes of key exchanges: SHA-1 to SHA-512 (RFC 4253 section 7.2).
const minSession, maxSession = 20, 64

// login is what is signed to log in (RFC 4252 section 7).
type login struct {
	Session   []byte
	Message   byte
	User      string
	Service   string
	Method    string
	Signed    bool
	Algorithm string
	Key       []byte
	HostKey   []byte `ssh:"rest"` // of methodBound, as a string; without it nothing
}

var (
	errNoLogin = errors.New("what is to be signed is no request to log in")
	errKey     = errors.New("the login is with another key")
	errUser    = errors.New("the login is of a user that the certificate is not for")
)

// parseLogin reads what is to be signed. What it returns is exactly what data says: anything
// that could be read otherwise is refused, a signature of a file (SSHSIG) among them.
func parseLogin(data []byte) (login, error) {
	var l login
	if ssh.Unmarshal(data, &l) != nil || !bytes.Equal(ssh.Marshal(l), data) {
		return login{}, errNoLogin
	}
	if l.Message != msgUserAuth || l.Service != service || !l.Signed || len(l.Session) < minSession || len(l.Session) > maxSession {
		return login{}, errNoLogin
	}
	switch l.Method {
	case methodPlain:
		if len(l.HostKey) != 0 {
			return login{}, errNoLogin
		}
	case methodBound:
		var host struct{ Key []byte }
		if ssh.Unmarshal(l.HostKey, &host) != nil || len(host.Key) == 0 {
			return login{}, errNoLogin
		}
		l.HostKey = host.Key
	default:
		return login{}, errNoLogin
	}
	return l, nil
}

// with refuses a login that is not with this certificate, for one of its users.
func (l login) with(cert *ssh.Certificate, users []string) error {
	switch {
	case !bytes.Equal(l.Key, cert.Marshal()) || l.Algorithm != cert.Type():
		return errKey
	case !slices.Contains(users, l.User):
		return errUser
	}
	return nil
}
