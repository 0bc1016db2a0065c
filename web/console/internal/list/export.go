package list

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// Export writes a list to the response, row by row. The audit log records every
// export, whole or not. An export that fails closes the connection without the
// end of the response, so that half a list does not look complete.
type Export struct {
	report.Export
	b    Exporter
	c    echo.Context
	v    *session.Visit
	w    *bufio.Writer
	csv  *csv.Writer
	rc   *http.ResponseController
	head []string
}

// The formats of an export, and the rows of one step.
const (
	FormatCSV   = "csv"
	FormatJSONL = "jsonl"
	FormatProof = "proof.jsonl" // as 'ebb audit verify' verifies it
	ExportRows  = 1000          // rows read from the broker at once
	ExportLook  = 20000         // rows scanned for one such page
)

// Exporter records exports.
type Exporter interface {
	Exported(ctx context.Context, who broker.Principal, x report.Export) error
}

// NewExport returns an export of a list. head is the first line of a CSV file.
func NewExport(b Exporter, c echo.Context, v *session.Visit, list, format string, filter map[string]string, head []string) *Export {
	return &Export{Export: report.Export{List: list, Format: format, Filter: filter}, b: b, c: c, v: v, head: head,
		rc: http.NewResponseController(c.Response())}
}

// Open sends the headers. All checks that can refuse the export come before it.
func (x *Export) Open() {
	h := x.c.Response().Header()
	kind := "application/jsonl"
	if x.Format == FormatCSV {
		kind = "text/csv; charset=utf-8; header=present"
	}
	h.Set(echo.HeaderContentType, kind)
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-`+x.List+"-"+x.v.Now.UTC().Format("20060102T150405Z")+"."+x.Format+`"`)
	x.c.Response().WriteHeader(http.StatusOK)
	x.w = bufio.NewWriterSize(x.c.Response(), 32<<10)
	if x.csv = csv.NewWriter(x.w); x.Format == FormatCSV {
		_ = x.csv.Write(x.head) // an error shows at the next row
	}
}

// Row writes one row: the cells for CSV, the value for JSON lines.
func (x *Export) Row(cells func() []string, value any) error {
	if x.Rows%256 == 0 {
		// Every 256 rows get a new deadline, so that a slow reader can finish
		// and a dead connection ends.
		_ = x.rc.SetWriteDeadline(time.Now().Add(30 * time.Second))
	}
	if x.Format == FormatCSV {
		safe := cells()
		for i, cell := range safe {
			safe[i] = agenttext.CSVCell(agenttext.Name(cell))
		}
		if err := x.csv.Write(safe); err != nil {
			return err
		}
	} else if err := WriteASCII(x.w, value); err != nil {
		return err
	}
	x.Rows++
	return nil
}

// Close ends the export. A non-nil err aborts the response.
func (x *Export) Close(err error) error {
	if x.csv.Flush(); err == nil {
		err = x.csv.Error()
	}
	if err == nil {
		err = x.w.Flush()
	}
	x.Ended(err)
	if rerr := x.b.Exported(x.c.Request().Context(), x.v.Principal, x.Export); err == nil {
		err = rerr // an export that could not be recorded is aborted
	}
	if err != nil {
		web.EventOf(x.c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// Proof sends the lines of an inclusion proof and ends the export.
func (x *Export) Proof(p report.Proof) error {
	x.Open()
	n := 0
	for line, err := range p.Lines {
		if n%256 == 0 { // as Row does
			_ = x.rc.SetWriteDeadline(time.Now().Add(30 * time.Second))
		}
		if n++; err == nil {
			err = x.Line(line)
		}
		if err != nil {
			return x.Close(err)
		}
	}
	x.Rows = p.Entries
	return x.Close(nil)
}

// Line writes one line of JSON that is not a row, such as a checkpoint.
func (x *Export) Line(value any) error { return WriteASCII(x.w, value) }

// WriteASCII writes a line of JSON in ASCII, so that every viewer shows the same characters.
func WriteASCII(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(audit.ASCII(b), '\n'))
	return err
}
