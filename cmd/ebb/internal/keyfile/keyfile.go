package keyfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"ebb/attest/jose"
	"ebb/broker/keys"
	"ebb/web/client"
)

// File is a client's identity.
type File struct {
	ClientID string // principal or sandbox id; "" in a file that another tool made
	TaskID   string // of a sandbox
	Key      jose.Signer
}

// Write makes path with mode 0600, whole and durable. It never overwrites: an
// error then wraps fs.ErrExist.
func Write(path string, f File) error {
	der, err := x509.MarshalPKCS8PrivateKey(f.Key)
	if err != nil {
		return errors.New("only a key in memory can be written: P-256 or Ed25519")
	}
	var b bytes.Buffer
	for _, line := range []struct{ name, value string }{{"client_id", f.ClientID}, {"task_id", f.TaskID}} {
		if strings.ContainsAny(line.value, "\r\n") {
			return fmt.Errorf("%s holds a line break", line.name)
		}
		if line.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.name, line.value)
		}
	}
	if err := pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return err
	}
	return keys.WritePrivate(path, b.Bytes())
}

// Read reads path. A missing file wraps fs.ErrNotExist, one that others can
// reach keys.ErrOpen.
func Read(path string) (File, error) {
	text, err := keys.ReadPrivate(path)
	if err != nil {
		return File{}, err
	}
	f, err := parse(text)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// parse never repeats anything of the key in an error.
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
