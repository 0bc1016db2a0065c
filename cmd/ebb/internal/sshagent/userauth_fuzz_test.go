package sshagent

import (
	"bytes"
	"testing"

	"golang.org/x/crypto/ssh"
)

// FuzzParseLogin: signed data has a single interpretation by RFC 4252 section
// 7, checked independently of the parser under test: each part is in its place,
// and no bytes are left.
func FuzzParseLogin(f *testing.F) {
	blob := func(method string, more []byte) []byte {
		return ssh.Marshal(login{Session: make([]byte, 32), Message: 50, User: "deploy", Service: "ssh-connection", Method: method, Signed: true, Algorithm: "a", Key: []byte("k"), HostKey: more})
	}
	f.Add(blob(methodPlain, nil))
	f.Add(blob(methodBound, []byte("\x00\x00\x00\x01h")))
	f.Add([]byte("SSHSIG\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLogin(data)
		if err != nil {
			return
		}
		var want []byte
		text := func(s []byte) {
			n := len(s)
			want = append(append(want, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)), s...)
		}
		text(l.Session)
		want = append(want, 50)
		for _, s := range []string{l.User, "ssh-connection", l.Method} {
			text([]byte(s))
		}
		want = append(want, 1)
		text([]byte(l.Algorithm))
		text(l.Key)
		if l.Method == methodBound {
			text(l.HostKey)
		}
		if !bytes.Equal(want, data) || len(l.Session) < 20 || bytes.HasPrefix(data, []byte("SSHSIG")) {
			t.Errorf("%q is read as %+v", data, l)
		}
	})
}

// FuzzParseBind: foreign data does not panic, and data without a valid
// signature does not bind.
func FuzzParseBind(f *testing.F) {
	f.Add(ssh.Marshal(bindRequest{HostKey: []byte("k"), Session: make([]byte, 32), Signature: []byte("s")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := parseBind(data); err == nil && (b.host == nil || len(b.session) < minSession) {
			t.Errorf("%q binds", data)
		}
	})
}
