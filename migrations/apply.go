package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// createMeta makes the table meta, which records the applied files. It is not a numbered file because it must exist before the
// applied files can be read.
const createMeta = `CREATE TABLE IF NOT EXISTS meta (
    version    BIGINT NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    checksum   TEXT   NOT NULL,
    applied_at BIGINT NOT NULL
)`

// Apply brings the database to the schema of this binary and returns the files that it applied.
// Each file is one transaction, which also records the file's checksum, so that a crash leaves only
// complete files. Replicas that start together take turns. A newer, changed or foreign database
// (ErrNewer, ErrChanged, ErrForeign) is not changed.
func Apply(ctx context.Context, db *sql.DB, d Dialect) ([]File, error) {
	files, err := Files()
	if err != nil {
		return nil, err
	}
	return apply(ctx, db, d, files)
}

func apply(ctx context.Context, db *sql.DB, d Dialect, files []File) ([]File, error) {
	w, err := d.words()
	if err != nil {
		return nil, err
	}
	var done []File
	for range files {
		var next *File
		err := within(ctx, db, w, func(conn *sql.Conn) error {
			s, err := state(ctx, conn, w, files)
			if err != nil || len(s.Pending) == 0 {
				return err
			}
			next = &s.Pending[0]
			return step(ctx, conn, w, *next)
		})
		if err != nil && next != nil {
			return done, fmt.Errorf("migration %s was rolled back: %w", next.Name, err)
		}
		if err != nil {
			return done, err
		}
		if next == nil {
			break
		}
		done = append(done, *next)
	}
	if w.after == "" {
		return done, nil
	}
	return done, within(ctx, db, w, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, w.after)
		return err
	})
}

func step(ctx context.Context, conn *sql.Conn, w words, f File) error {
	if _, err := conn.ExecContext(ctx, createMeta); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, f.SQL); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, w.insert, f.Version, f.Name, f.Checksum, time.Now().UnixMilli())
	return err
}
