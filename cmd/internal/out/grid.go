package out

import (
	"bytes"
	"io"
	"strings"
)

// grid is a table of drawn cells.
type grid struct {
	heads   []string
	rows    [][]string
	below   []string // remedy of each row, or empty
	widths  []int    // nil = as wide as the cells
	may     []bool   // columns that fit shortens first
	middle  []bool   // columns that are cut in their middle
	wrapped bool     // the last column is wrapped and not cut
}

const gap = "  "

func newGrid[T any](columns []Column[T]) *grid {
	g := &grid{may: make([]bool, len(columns)), middle: make([]bool, len(columns))}
	for _, c := range columns {
		g.heads = append(g.heads, strings.ToUpper(strings.ReplaceAll(c.Name, "_", " ")))
	}
	return g
}

// cap cuts the cells of a column to n.
func (g *grid) cap(column, n int) {
	for _, row := range g.rows {
		if idForm.MatchString(row[column]) {
			row[column] = row[column][:min(n, len(row[column]))]
			continue
		}
		row[column] = cut(row[column], n, false)
	}
}

// natural returns the widths of the columns without shortening.
func (g *grid) natural() []int {
	widths := make([]int, len(g.heads))
	for i, head := range g.heads {
		widths[i] = cells(head)
		for _, row := range g.rows {
			widths[i] = max(widths[i], cells(row[i]))
		}
	}
	return widths
}

// Least widths of columns that are shortened. States are not longer than leastText.
const (
	leastText  = 11
	leastTight = 8 // if leastText is not enough
	leastProse = 40
)

// fit sets the widths so that a line has at most Width cells: it shortens the
// widest of the columns that may be, and then, if that is not enough, of all.
func (g *grid) fit() {
	g.widths = g.natural()
	room := Width - len(gap)*(len(g.widths)-1)
	last := len(g.widths) - 1
	prose := 0
	if g.wrapped {
		prose = min(g.widths[last], leastProse)
		room -= prose
		g.widths[last] = 0
	}
	over := func() int {
		n := -room
		for _, w := range g.widths {
			n += w
		}
		return n
	}
	shrink := func(least int, may func(int) bool) {
		for over() > 0 {
			widest := -1
			for i, w := range g.widths {
				if may(i) && w > least && (widest < 0 || w > g.widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				return
			}
			g.widths[widest]--
		}
	}
	shrink(leastText, func(i int) bool { return g.may[i] })
	shrink(leastTight, func(i int) bool { return g.may[i] })
	shrink(1, func(int) bool { return true })
	if g.wrapped {
		g.widths[last] = prose - min(over(), 0)
	}
}

// print writes the table, "none" if it has no rows.
func (g *grid) print(w io.Writer) error {
	if len(g.rows) == 0 {
		_, err := io.WriteString(w, "none\n")
		return err
	}
	var b bytes.Buffer
	if g.widths == nil {
		g.widths = g.natural()
	}
	g.line(&b, g.heads)
	for i, row := range g.rows {
		g.line(&b, row)
		if len(g.below) > 0 && g.below[i] != "" {
			g.remedy(&b, g.below[i])
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (g *grid) line(b *bytes.Buffer, row []string) {
	last := len(row) - 1
	indent := 0
	for i, cell := range row[:last] {
		if cell == "" {
			cell = "-"
		}
		cell = cut(cell, g.widths[i], g.middle[i])
		b.WriteString(cell + strings.Repeat(" ", g.widths[i]-cells(cell)) + gap)
		indent += g.widths[i] + len(gap)
	}
	cell := row[last]
	if cell == "" {
		cell = "-"
	}
	if !g.wrapped {
		b.WriteString(cut(cell, g.widths[last], g.middle[last]) + "\n")
		return
	}
	b.WriteString(strings.Join(Wrap(cell, g.widths[last]), "\n"+strings.Repeat(" ", indent)) + "\n")
}

// remedy writes the remedy of a row in the last column, or further to the left
// if that is narrow.
func (g *grid) remedy(b *bytes.Buffer, text string) {
	indent := 0
	for _, w := range g.widths[:len(g.widths)-1] {
		indent += w + len(gap)
	}
	indent = min(indent, Width-leastProse)
	space := strings.Repeat(" ", indent)
	b.WriteString(space + "-> " + strings.Join(Wrap(text, Width-indent-len("-> ")), "\n"+space+"   ") + "\n")
}
