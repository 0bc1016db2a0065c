package keyfile

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxFile is far above any key file.
const maxFile = 64 << 10

// ErrOpen is wrapped when others on the machine could read the key.
var ErrOpen = errors.New("others can read it")

// File is a client's identity.
type File struct {
	ClientID string // principal or sandbox id; "" in a file that openssl made
	TaskID   string // of a sandbox
	Key      crypto.Signer
}

// Write creates path with mode 0600. It never overwrites: an error then wraps
// fs.ErrExist.
func Write(path string, f File) error {
	der, err := x509.MarshalPKCS8PrivateKey(f.Key)
	if err != nil {
		return fmt.Errorf("encoding the key: %w", err)
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
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("creating the key file: %w", err)
	}
	_, err = out.Write(b.Bytes())
	err = errors.Join(err, out.Sync(), out.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("writing the key file: %w", err), os.Remove(path))
	}
	return nil
}

// Read reads path. A missing file wraps fs.ErrNotExist, a readable one ErrOpen.
func Read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("opening the key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return File{}, fmt.Errorf("key file %s: %w", path, err)
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("key file %s: %w", path, fs.ErrInvalid)
	case info.Mode().Perm()&0o077 != 0:
		return File{}, fmt.Errorf("key file %s has mode %04o, %w: chmod 600 %s", path, info.Mode().Perm(), ErrOpen, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return File{}, fmt.Errorf("key file %s: %w", path, err)
	}
	out, err := parse(text)
	if err != nil {
		return File{}, fmt.Errorf("key file %s: %w; make one with `ebb keys new`", path, err)
	}
	return out, nil
}

// parse never repeats anything of the file in an error.
func parse(text []byte) (File, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(block.Headers) != 0 {
		return File{}, errors.New("it holds no PEM block PRIVATE KEY (PKCS#8)")
	}
	if len(bytes.TrimSpace(rest)) != 0 {
		return File{}, errors.New("something follows the key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return File{}, errors.New("the key in it cannot be read")
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return File{}, errors.New("the key in it cannot sign")
	}
	f := File{Key: key}
	head, _, _ := bytes.Cut(text, []byte("-----BEGIN"))
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
