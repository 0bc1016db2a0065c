package sshagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/broker"
)

// Identity is what a user logs in with at some hosts.
type Identity struct {
	// Name is what `ssh-add -l` shows.
	Name string
	// Issue asks for a certificate over a public key, one line of authorized_keys.
	Issue func(ctx context.Context, publicKey string) (Issued, error)
	// Hosts are where it is used; none = anywhere.
	Hosts []HostKeys
}

// Issued is a certificate and the lease that it lives by.
type Issued struct {
	Line      string // of authorized_keys
	LeaseID   string
	ExpiresAt time.Time
}

// Errors of an identity.
var (
	ErrOver = errors.New("sshagent: the certificate was ended; the agent asks for no other")

	errState       = errors.New("nobody can say whether the certificate is alive")
	errCertificate = errors.New("what was issued is no certificate of a user over the agent's key")
)

// early is how long before its end a certificate is of no use any more.
const early = 5 * time.Second

// identity is one of an agent's.
type identity struct {
	Identity
	turn chan struct{} // one question at a time: what waits for a person waits for others, too
	now  *held
	over bool // ended by somebody: for good
}

// held is a private key and the certificate over it.
type held struct {
	Issued
	signer ssh.Signer
	cert   *ssh.Certificate
	users  []string
}

// take waits for the identity; give gives it back.
func (i *identity) take(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (i *identity) give() { <-i.turn }

// alive is the certificate, when there is one now that ebb has not ended. The turn is had.
func (a *Agent) alive(ctx context.Context, i *identity) (*held, error) {
	switch {
	case i.over:
		return nil, ErrOver
	case i.now == nil:
		return nil, nil //nolint:nilnil // none is no error: it can be asked for
	case !a.cfg.Now().Before(i.now.ExpiresAt.Add(-early)):
		i.now = nil
		return nil, nil //nolint:nilnil // as above
	}
	state, err := a.cfg.State(ctx, i.now.LeaseID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errState, err)
	case state == broker.LeaseLive:
		return i.now, nil
	case state == broker.LeaseExpired:
		i.now = nil
		return nil, nil //nolint:nilnil // as above
	case state == "":
		return nil, errState
	}
	i.now, i.over = nil, true
	return nil, ErrOver
}

// ready is the certificate, asked for when there is none. The turn is had.
func (a *Agent) ready(ctx context.Context, i *identity) (*held, error) {
	h, err := a.alive(ctx, i)
	if h != nil || err != nil {
		return h, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	issued, err := i.Issue(ctx, strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(key)), "\n"))
	if err != nil {
		return nil, err
	}
	cert, err := parseCertificate(issued.Line, key)
	if err != nil {
		return nil, err
	}
	i.now = &held{Issued: issued, signer: signer, cert: cert, users: usersOf(cert)}
	return i.now, nil
}

// parseCertificate reads a certificate of a user over a key.
func parseCertificate(line string, key ssh.PublicKey) (*ssh.Certificate, error) {
	parsed, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errCertificate
	}
	cert, is := parsed.(*ssh.Certificate)
	if !is || cert.CertType != ssh.UserCert || !bytes.Equal(cert.Key.Marshal(), key.Marshal()) || len(usersOf(cert)) == 0 {
		return nil, errCertificate
	}
	return cert, nil
}

// usersOf are the accounts that a certificate is for: its principals are like deploy@web, or
// deploy alone, and no account has an @ in its name.
func usersOf(c *ssh.Certificate) []string {
	var out []string
	for _, p := range c.ValidPrincipals {
		if user, _, _ := strings.Cut(p, "@"); user != "" {
			out = append(out, user)
		}
	}
	return out
}
