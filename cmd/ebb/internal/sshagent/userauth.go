package sshagent

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"
)

// Methods of a login: the standard one, and OpenSSH's, which includes the
// host's key.
const (
	methodPlain = "publickey"
	methodBound = "publickey-hostbound-v00@openssh.com"
)

const (
	msgUserAuth = 50               // SSH_MSG_USERAUTH_REQUEST (RFC 4252 section 6)
	service     = "ssh-connection" // RFC 4254
)

// Bounds of a session ID in bytes: it is a hash, SHA-1 to SHA-512 (RFC 4253
// section 7.2).
const minSession, maxSession = 20, 64

// login is the data that is signed to log in (RFC 4252 section 7).
type login struct {
	Session   []byte
	Message   byte
	User      string
	Service   string
	Method    string
	Signed    bool
	Algorithm string
	Key       []byte
	HostKey   []byte `ssh:"rest"` // the host key as a string for methodBound, else empty
}

var (
	errNoLogin = errors.New("the data to sign is not a login request")
	errKey     = errors.New("the login uses another key")
	errUser    = errors.New("the certificate is not for the user of the login")
)

// parseLogin parses the data to sign. It accepts only data that encodes again
// to the same bytes, and so nothing else that could be signed, such as a
// signature of a file (SSHSIG).
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

// with refuses a login with another certificate, or for a user that is not in
// users.
func (l login) with(cert *ssh.Certificate, users []string) error {
	switch {
	case !bytes.Equal(l.Key, cert.Marshal()) || l.Algorithm != cert.Type():
		return errKey
	case !slices.Contains(users, l.User):
		return errUser
	}
	return nil
}
