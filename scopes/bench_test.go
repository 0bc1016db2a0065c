package scopes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := scopes.Parse("orders:eu/customers/42/invoices:read"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCovers(b *testing.B) {
	wide, narrow := scopes.MustParse("orders:eu/**:*"), scopes.MustParse("orders:eu/customers/42/invoices:read")
	for b.Loop() {
		if !wide.Covers(narrow) {
			b.Fatal("not covered")
		}
	}
}

func BenchmarkNarrow(b *testing.B) {
	ceiling := scopes.MustParseSet("files:in/**:read files:out/*:write git:acme/web:* orders:eu/**:read")
	asked := scopes.MustParseSet("files:in/a/b:read git:acme/web:push orders:eu/42:read")
	for b.Loop() {
		if ceiling.Narrow(asked).Len() != 3 {
			b.Fatal("lost a scope")
		}
	}
}

// BenchmarkNarrowHostile is the most expensive product of two parsed sets.
func BenchmarkNarrowHostile(b *testing.B) {
	var rows, columns []string
	for i := range 64 {
		rows = append(rows, fmt.Sprintf("a:r%d/*:x", i))
		columns = append(columns, fmt.Sprintf("a:*/c%d:x", i))
	}
	x, y := scopes.MustParseSet(strings.Join(rows, " ")), scopes.MustParseSet(strings.Join(columns, " "))
	for b.Loop() {
		x.Narrow(y)
	}
}
