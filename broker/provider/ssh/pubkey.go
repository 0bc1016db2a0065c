package ssh

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/jose"
)

// maxLine bounds the line of a public key; a P-256 key of a token needs 200.
const maxLine = 4096

// keyTypes are the kinds of keys that are certified. RSA keys are large and slow
// to check, P-384 and P-521 buy nothing over them here, and DSA is dead.
var keyTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// parsePublicKey reads one line of authorized_keys (sshd(8)): type, key, and a
// comment that is thrown away. Options, certificates, other types and anything
// that x/crypto would read but not write back alike are refused. The error is a
// sentence for the caller and repeats nothing of the line.
func parsePublicKey(line string) (ssh.PublicKey, error) {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return nil, errors.New("public_key is missing: send the line of the .pub file of a new key")
	}
	if len(line) > maxLine || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, fmt.Errorf("public_key must be one line of at most %d printable characters", maxLine)
	}
	kind, rest, _ := strings.Cut(line, " ")
	text, _, _ := strings.Cut(rest, " ")
	if !slices.Contains(keyTypes, kind) {
		return nil, fmt.Errorf("public_key must begin with one of %s: options, certificates and other keys are not certified", strings.Join(keyTypes, ", "))
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("public_key: the second field must be the base64 of the key")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || key.Type() != kind || !bytes.Equal(key.Marshal(), blob) {
		return nil, fmt.Errorf("public_key: the second field is no %s key", kind)
	}
	if !strong(blob) {
		return nil, errors.New("public_key: the Ed25519 key is not canonical or has a small order, so that anybody can sign for it; make a new one with ssh-keygen")
	}
	if !plainApplication(kind, blob) {
		return nil, errors.New("public_key: the application of a security key must be ssh: and printable")
	}
	return key, nil
}

// strong reports whether a signature for the key needs a private key, which is in question for
// Ed25519 alone (see jose.NewKey). The blob of a security key begins as that of a plain one does.
func strong(blob []byte) bool {
	var ed struct {
		Kind string
		Key  []byte
		Rest []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(blob, &ed) != nil || ed.Kind != ssh.KeyAlgoED25519 && ed.Kind != ssh.KeyAlgoSKED25519 {
		return true // ECDSA, whose points ssh.ParsePublicKey has checked
	}
	_, err := jose.NewKey("", ed25519.PublicKey(ed.Key))
	return err == nil
}

// plainApplication looks at the application of a security key (PROTOCOL.u2f): a
// text of the caller's that becomes part of the certificate.
func plainApplication(kind string, blob []byte) bool {
	var ed struct {
		Kind        string
		Key         []byte
		Application string
	}
	var ec struct {
		Kind        string
		Curve       string
		Key         []byte
		Application string
	}
	var application string
	var err error
	switch kind {
	case ssh.KeyAlgoSKED25519:
		err = ssh.Unmarshal(blob, &ed)
		application = ed.Application
	case ssh.KeyAlgoSKECDSA256:
		err = ssh.Unmarshal(blob, &ec)
		application = ec.Application
	default:
		return true
	}
	return err == nil && strings.HasPrefix(application, "ssh:") && printable(application) && len(application) <= 255
}
