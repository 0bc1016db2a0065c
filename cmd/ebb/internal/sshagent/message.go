package sshagent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Messages (draft-ietf-sshm-ssh-agent section 6.1). All others are refused.
const (
	msgFailure    = 5
	msgSuccess    = 6
	msgList       = 11 // SSH_AGENTC_REQUEST_IDENTITIES
	msgIdentities = 12
	msgSign       = 13
	msgSignature  = 14
	msgExtension  = 27
)

// Bounds of a client.
const (
	// maxMessage is many times the size of a certificate and a login request, a
	// few KiB each.
	maxMessage  = 32 << 10
	messageTime = 10 * time.Second // to receive the rest of a message, or to send a response
	idleTime    = 2 * time.Minute  // between messages
	maxConns    = 16               // at one time; further ones wait
)

type signRequest struct {
	Key   []byte
	Data  []byte
	Flags uint32 // for RSA keys only, which this agent does not have
}

type extension struct {
	Name     string
	Contents []byte `ssh:"rest"`
}

type listed struct {
	Key     []byte
	Comment string
}

var errMessage = errors.New("a message is empty or too long")

// readMessage reads one message: its length, its type, and its content.
func readMessage(c net.Conn) (kind byte, body []byte, err error) {
	var head [4]byte
	if err = c.SetReadDeadline(time.Now().Add(idleTime)); err != nil {
		return 0, nil, err
	}
	if _, err = io.ReadFull(c, head[:1]); err != nil {
		return 0, nil, err
	}
	if err = c.SetReadDeadline(time.Now().Add(messageTime)); err != nil {
		return 0, nil, err
	}
	if _, err = io.ReadFull(c, head[1:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxMessage {
		return 0, nil, errMessage
	}
	all := make([]byte, n)
	if _, err = io.ReadFull(c, all); err != nil {
		return 0, nil, err
	}
	return all[0], all[1:], nil
}

func writeMessage(c net.Conn, kind byte, body []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(messageTime)); err != nil {
		return err
	}
	all := binary.BigEndian.AppendUint32(nil, uint32(len(body)+1)) //nolint:gosec // of a few KiB
	_, err := c.Write(append(append(all, kind), body...))
	return err
}

// identities encodes the response to a list.
func identities(list []listed) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(list))) //nolint:gosec // a few
	for _, l := range list {
		out = append(out, ssh.Marshal(l)...)
	}
	return out
}

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
