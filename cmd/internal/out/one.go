package out

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// One prints one item: as a table with one line for each non-empty column, as
// CSV with a heading and one row, or as JSON.
func One[T any](w io.Writer, f Format, columns []Column[T], item T) error {
	switch f {
	case JSON:
		return writeJSON(w, item)
	case CSV:
		return listCSV(w, columns, []T{item})
	case Table:
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, c := range columns {
			if text := drawn(c.Cell(item), 0); text != "" {
				fmt.Fprintf(tw, "%s\t%s\n", strings.ReplaceAll(c.Name, "_", " "), text)
			}
		}
		return tw.Flush()
	}
	return fmt.Errorf("%q is not an output format", string(f))
}
