package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Errors that need a person. The wrapping error names the remedy.
var (
	ErrNewer   = errors.New("the database is newer than this binary")
	ErrChanged = errors.New("an applied migration has changed")
	ErrForeign = errors.New("the database belongs to something else")
)

// State lists the applied and the pending files of a database.
type State struct {
	Applied []File // SQL is empty
	Pending []File
}

// Status reads which files were applied and which are pending. It writes nothing.
// It fails as Apply would: ErrNewer, ErrChanged, ErrForeign.
func Status(ctx context.Context, db *sql.DB, d Dialect) (State, error) {
	files, err := Files()
	if err != nil {
		return State{}, err
	}
	w, err := d.words()
	if err != nil {
		return State{}, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return State{}, fmt.Errorf("migration status: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return state(ctx, conn, w, files)
}

func state(ctx context.Context, conn *sql.Conn, w words, files []File) (State, error) {
	var exists, others int
	if err := conn.QueryRowContext(ctx, w.exists).Scan(&exists); err != nil {
		return State{}, fmt.Errorf("migration status: %w", err)
	}
	if exists == 0 {
		if err := conn.QueryRowContext(ctx, w.others).Scan(&others); err != nil {
			return State{}, fmt.Errorf("migration status: %w", err)
		}
		if others > 0 {
			return State{}, fmt.Errorf("%w: it has tables but no ebb schema; nothing was changed; give ebb a database of its own", ErrForeign)
		}
		return State{Pending: files}, nil
	}
	applied, err := readMeta(ctx, conn)
	if err != nil {
		return State{}, err
	}
	if err := judge(applied, files); err != nil {
		return State{}, err
	}
	return State{Applied: applied, Pending: files[len(applied):]}, nil
}

func readMeta(ctx context.Context, conn *sql.Conn) ([]File, error) {
	rows, err := conn.QueryContext(ctx, "SELECT version, name, checksum FROM meta ORDER BY version")
	if err != nil {
		return nil, fmt.Errorf("%w: its table meta is not ebb's (%v); nothing was changed; give ebb a database of its own", ErrForeign, err)
	}
	defer func() { _ = rows.Close() }()
	var applied []File
	for rows.Next() {
		var f File
		if err := rows.Scan(&f.Version, &f.Name, &f.Checksum); err != nil {
			return nil, fmt.Errorf("%w: its table meta is not ebb's (%v); nothing was changed; give ebb a database of its own", ErrForeign, err)
		}
		applied = append(applied, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	return applied, nil
}

// judge compares the applied files of a database with those of this binary.
func judge(applied, files []File) error {
	for i, a := range applied {
		if a.Version != i+1 {
			return fmt.Errorf("%w: migration %d is recorded where %d belongs; nothing was changed; restore the database from a backup", ErrChanged, a.Version, i+1)
		}
		if i >= len(files) {
			return fmt.Errorf("%w: it has migration %s, the newest known here is %d; nothing was changed; run the newer ebb, or restore the backup from before the upgrade",
				ErrNewer, a.Name, len(files))
		}
		if a.Checksum != files[i].Checksum {
			return fmt.Errorf("%w: %s was applied with checksum %.12s, this binary has %.12s; nothing was changed; run the ebb release that wrote this database",
				ErrChanged, files[i].Name, a.Checksum, files[i].Checksum)
		}
	}
	return nil
}
