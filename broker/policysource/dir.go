package policysource

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"slices"

	"github.com/ebb-broker/ebb/broker/policyset"
)

// directory reads the directory once and compiles the files, unless their version is seen. One
// read serves both uses, so that the console shows the same texts that decide.
func (s *Source) directory(seen string) (found, error) {
	files, mark, err := read(s.cfg.Dir)
	if err != nil {
		mark = "unreadable: " + err.Error()
	}
	if mark == seen {
		return found{}, nil
	}
	if err != nil {
		return found{mark: mark}, err
	}
	set, err := policyset.Load(files)
	if err != nil {
		return found{mark: mark}, err
	}
	return found{policyset.InForce{Version: set.Version(), Source: s.kind(policyset.Files), Files: files}, set, mark}, nil
}

// changed returns the directory's set if its files differ from those of the previous look, even if
// that look failed. Otherwise it returns an empty result.
func (s *Source) changed(asked bool) (found, error) {
	seen := s.seen
	if asked {
		seen = ""
	}
	f, err := s.directory(seen)
	if f.mark != "" {
		s.seen = f.mark
	}
	return f, err
}

// ReadDir returns the *.cedar files at the top of fsys, sorted by name.
func ReadDir(fsys fs.FS) ([]policyset.File, error) {
	files, _, err := read(fsys)
	return files, err
}

func read(fsys fs.FS) ([]policyset.File, string, error) {
	if _, err := fs.Stat(fsys, "."); err != nil { // Glob would find nothing
		return nil, "", err
	}
	names, err := fs.Glob(fsys, "*.cedar")
	if err != nil {
		return nil, "", err
	}
	slices.Sort(names)
	h := sha256.New()
	files := make([]policyset.File, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(text)
		h.Write([]byte(name + "\x00"))
		h.Write(sum[:])
		files = append(files, policyset.File{Name: name, Text: string(text)})
	}
	return files, hex.EncodeToString(h.Sum(nil)), nil
}
