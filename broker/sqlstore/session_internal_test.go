package sqlstore

import (
	"database/sql"
	"testing"
)

// each returns the error of a query that fails after its first rows, instead of ending as if there were no more.
func TestEachReturnsAnErrorAfterRows(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const text = "SELECT CASE i WHEN 2 THEN abs(-9223372036854775807 - 1) ELSE i END FROM (SELECT 1 AS i UNION ALL SELECT 2)"
	var got []int
	for v, e := range each(t.Context(), pool{&engine{}, db}, text, nil, func(row scan) (v int, err error) { return v, row(&v) }) {
		if err = e; err == nil {
			got = append(got, v)
		}
	}
	if err == nil || len(got) != 1 {
		t.Errorf("rows %v, error %v", got, err)
	}
}
