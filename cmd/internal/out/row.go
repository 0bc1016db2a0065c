package out

import (
	"encoding/csv"
	"io"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// tabStop aligns the cells of rows, whose widths are not known in advance.
const tabStop = 4

// Row prints one event of a stream: its time as Time formats it, and other values.
// In a table it is one line of at most Width cells, with shortened ids, and with
// the time of day or, of another day, the date, in UTC. CSV has no heading. Use
// Lines for JSON.
func Row(w io.Writer, f Format, at string, values ...string) error {
	if t, err := time.Parse(time.RFC3339, at); err == nil && f == Table {
		at = moment(t.UTC(), time.Now().UTC())
	}
	values = append([]string{at}, values...)
	if f == CSV {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = agenttext.CSVCell(drawn(v, 0))
		}
		cw := csv.NewWriter(w)
		_ = cw.Write(row) // Error returns its error
		cw.Flush()
		return cw.Error()
	}
	line, pad := "", ""
	for _, v := range values {
		if v = drawn(v, 0); v == "" {
			v = "-"
		}
		if f == Table && idForm.MatchString(v) {
			v = v[:shortID]
		}
		line += pad + v
		pad = gap + strings.Repeat(" ", (tabStop-(cells(line)+len(gap))%tabStop)%tabStop)
	}
	if f == Table {
		line = cut(line, Width, false)
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

func moment(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05Z")
	}
	return t.Format(time.DateOnly)
}
