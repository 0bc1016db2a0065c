package migrations

import (
	"context"
	"database/sql"
	"io/fs"
)

// For tests of files that are not released.
func Read(fsys fs.FS) ([]File, error) { return read(fsys) }

func ApplyFiles(ctx context.Context, db *sql.DB, d Dialect, files []File) ([]File, error) {
	return apply(ctx, db, d, files)
}
