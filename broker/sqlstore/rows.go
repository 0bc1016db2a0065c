package sqlstore

import (
	"context"
	"errors"
	"fmt"
)

// scan is the Scan method of a row.
type scan func(dest ...any) error

// collect reads all rows of a query.
func collect[T any](ctx context.Context, q querier, text string, args []any, one func(scan) (T, error)) ([]T, error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []T
	for rows.Next() {
		v, err := one(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// single returns the row found by its key, or the error none if there is no row.
func single[T any](found []T, err error, what string, none error) (T, error) {
	if err == nil && len(found) == 0 {
		err = none
	}
	if err != nil {
		var v T
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return found[0], nil
}

// exists reports whether a query has a row.
func exists(ctx context.Context, q querier, text string, args ...any) (bool, error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return false, err
	}
	found := rows.Next()
	return found, errors.Join(rows.Err(), rows.Close())
}
