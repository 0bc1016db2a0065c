package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// CheckSetup implements provider.Checker. It cannot check how hosts use the published list.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	fatal := func(remedy, format string, args ...any) {
		out = append(out, provider.Finding{Fatal: true, What: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	cas, err := d.ca.keys()
	if err != nil {
		fatal("Start ebb serve once, or set ca.key_file.", "There is no CA key to sign with: %v.", err)
	}
	for _, k := range cas {
		out = append(out, provider.Finding{
			What:   "Hosts must trust " + ssh.FingerprintSHA256(k) + ".",
			Remedy: "Put the lines of GET /v1/ssh/ca into the file that TrustedUserCAKeys of sshd_config names.",
		})
	}
	if d.file != nil {
		if err := d.file.push(ctx, d.list); err != nil {
			fatal("Let ebb write to the directory of krl.file: it makes a new file there and renames it.", "The revocation list cannot be written: %v.", err)
		}
	}
	if d.file == nil && d.probe.url == "" {
		out = append(out, provider.Finding{
			What:   "ebb cannot see what hosts read: neither krl.file nor krl.url is set.",
			Remedy: "Set krl.url to where hosts fetch the revocation list.",
		})
	}
	lists, err := d.published(ctx)
	if err != nil {
		fatal("Serve GET /v1/ssh/krl there, unaltered and not cached.", "The published revocation list cannot be read: %v.", err)
	}
	for _, l := range lists {
		for _, k := range cas {
			if !has(l.Certs, k) {
				fatal("Serve GET /v1/ssh/krl of this ebb there.", "The published revocation list is not about the CA key %s.", ssh.FingerprintSHA256(k))
			}
		}
	}
	if d.set.Kill == nil {
		out = append(out, provider.Finding{
			What:   "Sessions that are open when a certificate is revoked go on: no kill command is set.",
			Remedy: "Set kill.command, see docs/providers/ssh.md.",
		})
	} else if info, err := os.Stat(d.set.Kill.Command[0]); err != nil || info.Mode()&0o111 == 0 || info.IsDir() {
		fatal("chmod +x it, or correct kill.command.", "The kill command %s is no program.", d.set.Kill.Command[0])
	}
	return out
}

// SampleKey implements provider.Certifier.
func (d *Driver) SampleKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(key)), "\n"), nil
}

// has reports whether a list says something about a CA.
func has(list []krl.Certs, ca ssh.PublicKey) bool {
	return slices.ContainsFunc(list, func(c krl.Certs) bool { return slices.Equal(c.CA, ca.Marshal()) })
}
