package demo

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshKey generates a key and returns its line of authorized_keys.
func sshKey() (ssh.Signer, string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	s, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, "", err
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))), nil
}

// sshCert parses the certificate that ebb issued.
func sshCert(line string) (*ssh.Certificate, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("a %s is not a certificate", key.Type())
	}
	return cert, nil
}

// sshRun logs in with a certificate and runs a command, as ssh(1) does.
func sshRun(ctx context.Context, addr, hostKey, user string, cert *ssh.Certificate, key ssh.Signer, command string) (string, error) {
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return "", err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		return "", err
	}
	c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	conn, channels, requests, err := ssh.NewClientConn(c, addr, &ssh.ClientConfig{
		Config: sshAlgorithms(), User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host),
	})
	if err != nil {
		return "", err
	}
	client := ssh.NewClient(conn, channels, requests)
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer s.Close()
	var out bytes.Buffer
	s.Stdout = &out
	err = s.Run(command)
	return out.String(), err
}
