package transcripts

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// shownPath limits a path in the list, in bytes. The page of the transcript shows the whole path.
const shownPath = 160

type transcriptsPage struct {
	Form    *list.Query
	Rows    []transcriptRow
	Names   map[string]string // of tasks, by id
	Address string
	CSV     string
	JSONL   string
	Pager   list.Pager
}

// transcriptRow is a transcript in the list.
type transcriptRow struct{ transcript.Head }

// Torn reports that only the name of the transcript file is known, because its
// file is incomplete or unreadable.
func (r transcriptRow) Torn() bool { return r.Host == "" }

// Start returns the beginning of the path, and the number of bytes left out.
func (r transcriptRow) Start() []said { return saidOf(beginning(r.Path, shownPath)) }

// transcriptFilter reads the filter of the list.
func transcriptFilter(a *list.Query) transcript.Filter {
	return transcript.Filter{TaskID: a.Text("task"), LeaseID: a.Text("lease")}
}

// transcripts lists the transcripts of this ebb, without headers and bodies.
func (ps *Pages) transcripts(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	f := transcriptFilter(a)
	after, before := a.Cursor("after"), a.Cursor("before")
	listKey := "transcripts?" + a.Kept.Encode()
	place, back := ps.Cursors.Place(a, listKey, after, before)
	page := transcriptsPage{Form: a, Address: list.Address(list.TranscriptsPath, a.Kept.Encode()), CSV: list.Address(list.TranscriptsPath+".csv", a.Kept.Encode()), JSONL: list.Address(list.TranscriptsPath+".jsonl", a.Kept.Encode())}
	frame := shell.Frame{Title: "Transcripts", Nav: "/audit"}
	if a.Unread() {
		return ps.Shell.Draw(c, http.StatusUnprocessableEntity, v, "transcripts", frame, page)
	}
	if f.After = place; back {
		f.After, f.Before = "", place
	}
	f.Limit = list.Rows + 1 // one more row than shown, to know whether there are more
	heads, err := ps.Broker.Transcripts(v.Principal, f)
	if err != nil {
		return err
	}
	in := list.Paging{List: listKey, At: page.Address, Placed: place != "", Back: back, More: len(heads) > list.Rows}
	if in.More && back {
		heads = heads[1:] // the extra row is the newest, at the far end from the cursor
	} else if in.More {
		heads = heads[:list.Rows]
	}
	for _, h := range heads {
		page.Rows = append(page.Rows, transcriptRow{h})
	}
	if n := len(heads); n > 0 {
		in.First, in.Last = heads[0].ID, heads[n-1].ID
		if in.Stop = in.Last; back {
			in.Stop = in.First
		}
	}
	page.Pager = ps.Cursors.Pager(in)
	if page.Names, err = list.TaskNames(c.Request().Context(), ps.Broker, v.Principal, heads, func(h transcript.Head) string { return h.TaskID }); err != nil {
		return err
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "transcripts", frame, page)
}

var transcriptHead = []string{"id", "at", "task_id", "lease_id", "rule", "tool", "method", "host", "path"}

func transcriptCells(h transcript.Head) []string {
	return []string{h.ID, h.At.UTC().Format("2006-01-02T15:04:05.000Z"), h.TaskID, h.LeaseID, h.Rule, h.Tool, h.Method, h.Host, h.Path}
}

// exportTranscripts exports the list that the page shows for the same query,
// without headers and bodies.
func (ps *Pages) exportTranscripts(format string) func(echo.Context, *session.Visit) error {
	return func(c echo.Context, v *session.Visit) error {
		a := list.ReadQuery(c)
		f := transcriptFilter(a)
		if err := a.Done(); err != nil {
			return err
		}
		f.Limit = list.ExportRows
		heads, err := ps.Broker.Transcripts(v.Principal, f)
		if err != nil {
			return err
		}
		x := list.NewExport(ps.Broker, c, v, "transcripts", format, a.Filter(), transcriptHead)
		x.Open()
		for {
			for _, h := range heads {
				if err := x.Row(func() []string { return transcriptCells(h) }, h); err != nil {
					return x.Close(err)
				}
			}
			if len(heads) < list.ExportRows {
				return x.Close(nil)
			}
			f.After = heads[len(heads)-1].ID
			if heads, err = ps.Broker.Transcripts(v.Principal, f); err != nil {
				return x.Close(err)
			}
		}
	}
}
