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

	"github.com/ebb-broker/ebb/web/wire"
)

// Identity is a certificate for logins at some hosts.
type Identity struct {
	// Name is the comment that `ssh-add -l` shows.
	Name string
	// Issue requests a certificate over a public key, one line of
	// authorized_keys.
	Issue func(ctx context.Context, publicKey string) (Issued, error)
	// Hosts are the hosts for which it is used; none = all.
	Hosts []HostKeys
}

// Issued is a certificate and its lease.
type Issued struct {
	Line      string // of authorized_keys
	LeaseID   string
	ExpiresAt time.Time
}

// Errors of an identity.
var (
	errOver = errors.New("sshagent: the certificate was revoked; the agent requests no other")

	errState       = errors.New("the state of the certificate is unknown")
	errCertificate = errors.New("the issued credential is not a user certificate over the agent's key")
)

// early is how long before its expiry a certificate is replaced.
const early = 5 * time.Second

// identity is the state of one identity.
type identity struct {
	Identity
	turn chan struct{} // one caller at a time: if it waits for an approval, others wait too
	now  *held
	over bool // revoked; no other certificate is requested
}

// held is a private key and the certificate over it.
type held struct {
	Issued
	signer ssh.Signer
	cert   *ssh.Certificate
	users  []string
}

// take locks the identity; give unlocks it.
func (i *identity) take(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (i *identity) give() { <-i.turn }

// alive returns the current certificate if ebb reports it live, and nil if
// there is none. The caller has taken the identity.
func (a *Agent) alive(ctx context.Context, i *identity) (*held, error) {
	switch {
	case i.over:
		return nil, errOver
	case i.now == nil:
		return nil, nil //nolint:nilnil // no certificate is not an error: one can be requested
	case !a.cfg.Now().Before(i.now.ExpiresAt.Add(-early)):
		i.now = nil
		return nil, nil //nolint:nilnil // as above
	}
	state, err := a.cfg.State(ctx, i.now.LeaseID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errState, err)
	case state == wire.LeaseLive:
		return i.now, nil
	case state == wire.LeaseExpired:
		i.now = nil
		return nil, nil //nolint:nilnil // as above
	case state == "":
		return nil, errState
	}
	i.now, i.over = nil, true
	return nil, errOver
}

// ready returns the certificate, and requests one if there is none. The caller
// has taken the identity.
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

// parseCertificate parses a user certificate over key.
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

// usersOf returns the accounts of a certificate. A principal is deploy@web or
// just deploy, and account names contain no @.
func usersOf(c *ssh.Certificate) []string {
	var out []string
	for _, p := range c.ValidPrincipals {
		if user, _, _ := strings.Cut(p, "@"); user != "" {
			out = append(out, user)
		}
	}
	return out
}
