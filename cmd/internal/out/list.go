package out

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// maxCell is the maximum number of code points of a cell in a table. IDs are
// shorter.
const maxCell = 160

// Column is one column of a table or CSV: its heading, and the cell of an item.
type Column[T any] struct {
	Name string
	Cell func(T) string
}

// List prints items. JSON is an array of the items; the other formats have the
// columns, in their order. An empty table prints "none".
func List[T any](w io.Writer, f Format, columns []Column[T], items []T) error {
	switch f {
	case JSON:
		if items == nil {
			items = []T{}
		}
		return writeJSON(w, items)
	case CSV:
		return listCSV(w, columns, items)
	case Table:
		return listTable(w, columns, items)
	}
	return fmt.Errorf("%q is not an output format", string(f))
}

func listTable[T any](w io.Writer, columns []Column[T], items []T) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = strings.ToUpper(strings.ReplaceAll(c.Name, "_", " "))
	}
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	cells := make([]string, len(columns))
	for _, item := range items {
		for i, c := range columns {
			if cells[i] = drawn(c.Cell(item), maxCell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

func listCSV[T any](w io.Writer, columns []Column[T], items []T) error {
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

// drawn makes text safe to display: at most limit code points (0 = all), in one
// line, with invisible characters escaped. Printable ASCII within the limit is
// unchanged, so that IDs and digests can be copied.
func drawn(text string, limit int) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) || limit > 0 && len(text) > limit {
		return agenttext.ShowLine(agenttext.From(text), limit)
	}
	return text
}

// Line escapes text of another system for use in a message.
func Line(text string) string { return drawn(text, 1000) }
