package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed *.sql
var embedded embed.FS

// File is one numbered change of the schema.
type File struct {
	Version  int
	Name     string // NNNN_name.sql
	SQL      string
	Checksum string // lower-case hex SHA-256 of SQL
}

// Files returns the embedded files in the order of their versions, which run
// 1, 2, 3 ... without gaps.
func Files() ([]File, error) { return read(embedded) }

func read(fsys fs.FS) ([]File, error) {
	names, err := fs.Glob(fsys, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(names))
	for i, name := range names {
		number, _, ok := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if !ok || err != nil || len(number) != 4 || version != i+1 {
			return nil, fmt.Errorf("migration %s: the name must be %04d_name.sql: versions have no gaps", name, i+1)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		files = append(files, File{Version: version, Name: name, SQL: string(text), Checksum: hex.EncodeToString(sum[:])})
	}
	return files, nil
}
