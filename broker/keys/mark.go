package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
)

// A high-water mark says how far the audit log had come. It is kept beside the keys because it must not
// be lost with the database. Each process writes a file of its own, so that replicas need no lock.

const (
	markPrefix = "mark-"
	markExt    = ".json"
)

// markWriter is the form of the ids that name mark files.
var markWriter = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Marks returns the content of every mark file, by the id of the process run that wrote it.
func (d *Dir) Marks(context.Context) (map[string][]byte, error) {
	list, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	out := map[string][]byte{}
	for _, e := range list {
		writer, is := strings.CutPrefix(e.Name(), markPrefix)
		writer, ends := strings.CutSuffix(writer, markExt)
		if !is || !ends || !markWriter.MatchString(writer) {
			continue
		}
		text, err := secret.ReadFile(filepath.Join(d.cfg.Dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another replica removed it meanwhile
		}
		if err != nil {
			return nil, err
		}
		out[writer] = text
	}
	return out, nil
}

// PutMark replaces the mark of a process run, durably.
func (d *Dir) PutMark(_ context.Context, writer string, mark []byte) error {
	if !markWriter.MatchString(writer) {
		return fmt.Errorf("keys: %q cannot name a high-water mark", writer)
	}
	return secret.ReplaceFile(filepath.Join(d.cfg.Dir, markPrefix+writer+markExt), mark)
}

// DropMark removes the mark of a process run. There may be none.
func (d *Dir) DropMark(_ context.Context, writer string) error {
	if !markWriter.MatchString(writer) {
		return nil
	}
	if err := os.Remove(filepath.Join(d.cfg.Dir, markPrefix+writer+markExt)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}
