package out

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// maxCell is the maximum number of code points of a cell in a wide table. IDs
// are shorter.
const maxCell = 160

// List prints items. JSON is an array of the items; the other formats have the
// columns, in their order. An empty table prints "none". A table is at most
// Width cells wide, whether or not it is printed to a terminal.
func List[T any](w io.Writer, f Format, columns []Column[T], items []T) error {
	switch f {
	case JSON:
		if items == nil {
			items = []T{}
		}
		return writeJSON(w, items)
	case CSV:
		return listCSV(w, columns, items)
	case Wide:
		return listWide(w, columns, items)
	case Table:
		return listTable(w, columns, items)
	}
	return fmt.Errorf("%q is not an output format", string(f))
}

// without returns the columns except those that only other shows.
func without[T any](columns []Column[T], other Show) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Show == other })
}

func listCSV[T any](w io.Writer, columns []Column[T], items []T) error {
	columns = without(columns, Brief)
	cw := csv.NewWriter(w)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.Name
	}
	if err := cw.Write(row); err != nil {
		return err
	}
	for _, item := range items {
		for i, c := range columns {
			row[i] = agenttext.CSVCell(drawn(c.Cell(item), 0))
		}
		if err := cw.Write(row); err != nil {
			return err
		}
	}
	cw.Flush()
	return cw.Error()
}

func listWide[T any](w io.Writer, columns []Column[T], items []T) error {
	columns = without(columns, Brief)
	g := newGrid(columns)
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = drawn(c.Cell(item), maxCell)
		}
		g.rows = append(g.rows, row)
	}
	return g.print(w)
}

func listTable[T any](w io.Writer, columns []Column[T], items []T) error {
	columns = without(columns, Full)
	var remedy func(T) string
	if i := slices.IndexFunc(columns, func(c Column[T]) bool { return c.Form == Remedy }); i >= 0 {
		remedy = columns[i].Cell
		columns = slices.Delete(columns, i, i+1)
	}
	g, now := newGrid(columns), time.Now()
	var ids []string
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.Cell(item)
			switch {
			case c.Form == ID && idForm.MatchString(row[i]):
				ids = append(ids, row[i])
			case c.Form == When:
				if t, err := time.Parse(time.RFC3339, row[i]); err == nil {
					row[i] = Relative(t, now)
				}
			}
			row[i] = drawn(row[i], 0)
		}
		g.rows = append(g.rows, row)
		if remedy != nil {
			g.below = append(g.below, drawn(remedy(item), 0))
		}
	}
	for i, c := range columns {
		switch c.Form {
		case ID:
			g.cap(i, idLength(ids))
		case When:
			g.heads[i] = strings.TrimSuffix(g.heads[i], " AT")
		case Prose:
			g.wrapped = i == len(columns)-1
		case Scope:
			g.middle[i] = true
		case Text, Remedy:
		}
		g.may[i] = c.Form == Text || c.Form == Scope
	}
	g.fit()
	return g.print(w)
}

// drawn makes text safe to display: at most limit code points (0 = all), in one
// line, with invisible characters escaped. Printable ASCII within the limit is
// unchanged, so that IDs and digests can be copied.
func drawn(text string, limit int) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) || limit > 0 && len(text) > limit {
		return agenttext.ShowLine(agenttext.From(text), limit)
	}
	return text
}

// Whole escapes text of another system without shortening it.
func Whole(text string) string { return drawn(text, 0) }

// Line escapes text of another system for use in a message.
func Line(text string) string { return drawn(text, 1000) }
