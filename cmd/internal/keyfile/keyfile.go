package keyfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// File is the content of a key file.
type File struct {
	ClientID string // principal or sandbox ID; "" in a file of another tool
	TaskID   string // of a sandbox
	Key      jose.Signer
}

// Write creates path with mode 0600, atomically and durably. It never
// overwrites a file: the error then wraps fs.ErrExist.
func Write(path string, f File) error {
	der, err := x509.MarshalPKCS8PrivateKey(f.Key)
	if err != nil {
		return errors.New("only P-256 and Ed25519 keys in memory can be written")
	}
	var b bytes.Buffer
	for _, line := range []struct{ name, value string }{{"client_id", f.ClientID}, {"task_id", f.TaskID}} {
		if strings.ContainsAny(line.value, "\r\n") {
			return fmt.Errorf("%s contains a line break", line.name)
		}
		if line.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.name, line.value)
		}
	}
	if err := pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return err
	}
	return secret.WriteFile(path, b.Bytes())
}

// Read reads path. The error wraps fs.ErrNotExist if it is missing, and
// secret.ErrOpen if other users can access it.
func Read(path string) (File, error) {
	text, err := secret.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	f, err := parse(text)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Public returns the public key with its RFC 7638 thumbprint as kid, which ebb's
// clients send.
func Public(s jose.Signer) (jose.Key, error) {
	kid, err := jose.Thumbprint(s.Public())
	if err != nil {
		return jose.Key{}, err
	}
	return jose.NewKey(kid, s.Public())
}

// PublicJWK returns the key of Public as a JWK, which the configuration of a
// principal contains.
func PublicJWK(s jose.Signer) ([]byte, error) {
	key, err := Public(s)
	if err != nil {
		return nil, err
	}
	return jose.MarshalPublicJWK(key)
}

// parse never repeats a part of the key in an error.
func parse(text []byte) (File, error) {
	key, err := client.ParseKey(text)
	if err != nil {
		return File{}, err
	}
	f := File{Key: key}
	head, _, found := bytes.Cut(text, []byte("-----BEGIN"))
	if !found {
		return f, nil // a JWK has no head
	}
	for line := range strings.Lines(string(head)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		switch name {
		case "client_id":
			f.ClientID = value
		case "task_id":
			f.TaskID = value
		}
	}
	return f, nil
}
