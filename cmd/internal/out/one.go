package out

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// One prints one item: as a table with one line for each non-empty column, as
// CSV with a heading and one row, or as JSON. A table shows every value whole,
// and beside a time its distance from now.
func One[T any](w io.Writer, f Format, columns []Column[T], item T) error {
	switch f {
	case JSON:
		return writeJSON(w, item)
	case CSV:
		return listCSV(w, columns, []T{item})
	case Table, Wide:
		return fields(w, f, columns, item)
	}
	return fmt.Errorf("%q is not an output format", string(f))
}

func fields[T any](w io.Writer, f Format, columns []Column[T], item T) error {
	var lines [][2]string
	names, now := 0, time.Now()
	for _, c := range without(columns, Brief) {
		text := c.Cell(item)
		if t, err := time.Parse(time.RFC3339, text); c.Form == When && err == nil && f == Table {
			text += " (" + Relative(t, now) + ")"
		}
		if text = drawn(text, 0); text != "" {
			name := strings.ReplaceAll(c.Name, "_", " ")
			names = max(names, len(name))
			lines = append(lines, [2]string{name, text})
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", names, l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}
