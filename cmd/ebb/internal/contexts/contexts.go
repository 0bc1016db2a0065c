package contexts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/owndir"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Local is the name of the ebb of this user on this machine. No file has it.
const Local = "local"

// Context is one ebb, and how a person calls it. Paths are absolute.
type Context struct {
	URL      string `json:"url"` // its issuer
	CAFile   string `json:"ca_file,omitempty"`
	KeyFile  string `json:"key_file"`
	ClientID string `json:"client_id"`
}

// File is the content of the file.
type File struct {
	Current  string             `json:"current,omitempty"` // "" = Local
	Contexts map[string]Context `json:"contexts"`
}

// Dir returns the directory of the file: ebb in XDG_CONFIG_HOME or in .config of
// HOME, "" without both.
func Dir(env func(string) string) string {
	switch {
	case filepath.IsAbs(env("XDG_CONFIG_HOME")):
		return filepath.Join(env("XDG_CONFIG_HOME"), "ebb")
	case env("HOME") != "":
		return filepath.Join(env("HOME"), ".config", "ebb")
	}
	return ""
}

func path(dir string) string { return filepath.Join(dir, "contexts.json") }

// Read reads the file in dir, and returns the zero File if there is none. A file
// or directory that other users can access is an error.
func Read(dir string) (File, error) {
	if dir == "" {
		return File{}, nil
	}
	root, err := owndir.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", dir, err)
	}
	defer root.Close()
	text, err := secret.ReadFile(path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, err
	}
	var f File
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || d.More() {
		return File{}, fmt.Errorf("%s: %w", path(dir), cmp.Or(err, errors.New("more than one JSON value")))
	}
	for name := range f.Contexts {
		if err := CheckName(name); err != nil {
			return File{}, fmt.Errorf("%s: %w", path(dir), err)
		}
	}
	return f, nil
}

// Write replaces the file in dir, and creates the directory.
func Write(dir string, f File) error {
	if dir == "" {
		return errors.New("neither HOME nor XDG_CONFIG_HOME is set")
	}
	if err := secret.EnsureDir(dir); err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return secret.ReplaceFile(path(dir), append(text, '\n'))
}

var name = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`)

// CheckName refuses a name that is not a word, and Local.
func CheckName(n string) error {
	if n == Local || !name.MatchString(n) {
		return fmt.Errorf("%q cannot name a context: use up to 100 letters, digits and . _ : -, and not %q", n, Local)
	}
	return nil
}
