package sshagent

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
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
