package ssh

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Signer completes a certificate with nonce, signature key and signature. It must not change
// other members. ebb's own CA is a Signer; an external CA can be another.
type Signer interface {
	Sign(ctx context.Context, c *ssh.Certificate) error
}

// ca is ebb's own CA. Its keys are in a directory, where they rotate with an overlap, or its
// one key is in a file.
type ca struct {
	now func() time.Time
	dir *keys.Dir // nil when the key is in a file

	file    ssh.Signer      // nil when the keys are in a directory
	trusted []ssh.PublicKey // further trusted keys beside file
}

// openCA opens the CA of a configuration. Without a directory the CA has no key, because the
// configuration is only being checked.
func openCA(s settings, dir string, now func() time.Time, log *slog.Logger) (*ca, error) {
	c := &ca{now: now}
	if s.CA.KeyFile != "" {
		return c, c.openFiles(s.CA)
	}
	if dir == "" {
		return c, nil
	}
	var err error
	c.dir, err = keys.Open(keys.Config{Dir: dir, Now: now, Log: log, Policy: keys.Policy{
		Alg: jose.EdDSA, RotateEvery: s.rotate, Lead: s.lead,
		// A host whose clock is behind must still accept the last certificate of a key, and
		// ebb must still be able to revoke it.
		Grace: s.maxTTL + keep,
	}})
	return c, err
}

func (c *ca) openFiles(o CAOptions) error {
	pem, err := secret.ReadFile(o.KeyFile)
	if err != nil {
		return fmt.Errorf("ca.key_file: %w", err)
	}
	raw, err := ssh.ParseRawPrivateKey(pem)
	if err != nil {
		return errors.New("ca.key_file holds no OpenSSH private key without a passphrase: ssh-keygen -t ed25519 -N '' -f FILE makes one")
	}
	private, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return fmt.Errorf("ca.key_file holds a %T: a CA key is Ed25519", raw)
	}
	if c.file, err = ssh.NewSignerFromSigner(private); err != nil {
		return fmt.Errorf("ca.key_file: %w", err)
	}
	for _, path := range o.Trusted {
		line, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("ca.trusted: %w", err)
		}
		key, err := parsePublicKey(string(line))
		if err != nil || key.Type() != ssh.KeyAlgoED25519 {
			return fmt.Errorf("ca.trusted: %s must hold one Ed25519 public key in a line", path)
		}
		c.trusted = append(c.trusted, key)
	}
	return nil
}

// errNoCA is the error of a driver that was made only to check a configuration.
var errNoCA = errors.New("ssh provider: there is no CA key")

func (c *ca) signer() (ssh.Signer, error) {
	switch {
	case c.file != nil:
		return c.file, nil
	case c.dir == nil:
		return nil, errNoCA
	}
	s, _, _, err := c.dir.Ring().Signer(c.now())
	if err != nil {
		return nil, fmt.Errorf("ssh provider: %w", err)
	}
	return ssh.NewSignerFromSigner(s)
}

// Sign implements Signer.
func (c *ca) Sign(_ context.Context, cert *ssh.Certificate) error {
	s, err := c.signer()
	if err != nil {
		return err
	}
	return cert.SignCert(rand.Reader, s)
}

// keys returns the public keys that hosts must trust now, with the signing key first.
func (c *ca) keys() ([]ssh.PublicKey, error) {
	s, err := c.signer()
	if err != nil {
		return nil, err
	}
	out := []ssh.PublicKey{s.PublicKey()}
	others := c.trusted
	if c.dir != nil {
		for _, k := range c.dir.Ring().Keys(c.now()) {
			p, err := publicOf(k.Signer)
			if err != nil {
				return nil, err
			}
			others = append(others, p)
		}
	}
	for _, k := range others {
		if string(k.Marshal()) != string(out[0].Marshal()) {
			out = append(out, k)
		}
	}
	return out, nil
}

func publicOf(s crypto.Signer) (ssh.PublicKey, error) { return ssh.NewPublicKey(s.Public()) }

// maintain makes the next key when it is due, and removes old ones.
func (c *ca) maintain(now time.Time) error {
	if c.dir == nil {
		return nil
	}
	return c.dir.Maintain(now)
}

// authorizedKeys returns keys as lines of a TrustedUserCAKeys file.
func authorizedKeys(list []ssh.PublicKey, comment string) []byte {
	var b strings.Builder
	for _, k := range list {
		b.WriteString(strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k)), "\n") + " " + comment + "\n")
	}
	return []byte(b.String())
}

const (
	// fileRound is the interval at which the file is compared with the database: other replicas
	// revoke, and other processes may change the file.
	fileRound = 5 * time.Second
	// keyRound is the interval of the maintenance of the CA's keys.
	keyRound = time.Minute
)

// Run maintains the KRL file, at once and then regularly, and the CA's keys, until ctx is done. It
// logs failures and tries again. A published list stays until its successor is written.
func (d *Driver) Run(ctx context.Context) error {
	files, keys := time.NewTicker(fileRound), time.NewTicker(keyRound)
	defer files.Stop()
	defer keys.Stop()
	d.keepFile(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-files.C:
			d.keepFile(ctx)
		case <-keys.C:
			if err := d.ca.maintain(d.clock.Read().Sure); err != nil {
				d.cfg.Logger.ErrorContext(ctx, "the keys of an SSH CA could not be looked after; the ones in force stay", "provider", d.cfg.Name, "error", err)
			}
		}
	}
}

func (d *Driver) keepFile(ctx context.Context) {
	if d.file == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fileRound)
	defer cancel()
	if err := d.file.push(ctx, d.list); err != nil && ctx.Err() == nil {
		d.cfg.Logger.ErrorContext(ctx, "the SSH revocation list could not be written; hosts go on with what they have", "provider", d.cfg.Name, "error", err)
	}
}
