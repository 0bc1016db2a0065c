package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker/transcript"
)

const transcriptsPath = "/transcripts"

// shownPath limits a path in the list, in bytes. The page of the transcript
// shows the whole path.
const shownPath = 160

type transcriptsPage struct {
	Filter  map[string]string
	Rows    []transcriptRow
	Address string
	CSV     string
	JSONL   string
	Pager   pager
}

// transcriptRow is a transcript in the list.
type transcriptRow struct{ transcript.Head }

// Torn reports that only the name of the transcript file is known, because its
// file is incomplete or unreadable.
func (r transcriptRow) Torn() bool { return r.Host == "" }

// Start returns the beginning of the path, and the number of bytes left out.
func (r transcriptRow) Start() []said { return saidOf(beginning(r.Path, shownPath)) }

// transcriptFilter reads the filter of the list.
func transcriptFilter(a *asked) transcript.Filter {
	return transcript.Filter{TaskID: a.text("task"), LeaseID: a.text("lease")}
}

// transcripts lists the transcripts of this ebb, without headers and bodies.
func (ap *auditPages) transcripts(c echo.Context, v *visit) error {
	a := readAsked(c)
	f := transcriptFilter(a)
	after, before := a.cursor("after"), a.cursor("before")
	list := "transcripts?" + a.kept.Encode()
	place, back := ap.pages.place(a, list, after, before)
	if err := a.done(); err != nil {
		return err
	}
	if f.After = place; back {
		f.After, f.Before = "", place
	}
	f.Limit = listRows + 1 // one more row than shown, to know whether there are more
	heads, err := ap.b.Transcripts(v.Principal, f)
	if err != nil {
		return err
	}
	in := paging{list: list, at: address(transcriptsPath, a.kept.Encode()), placed: place != "", back: back, more: len(heads) > listRows}
	if in.more && back {
		heads = heads[1:] // the extra row is the newest, at the far end from the cursor
	} else if in.more {
		heads = heads[:listRows]
	}
	page := transcriptsPage{Filter: a.filter(), Address: in.at, CSV: address(transcriptsPath+".csv", a.kept.Encode()), JSONL: address(transcriptsPath+".jsonl", a.kept.Encode())}
	for _, h := range heads {
		page.Rows = append(page.Rows, transcriptRow{h})
	}
	if n := len(heads); n > 0 {
		in.first, in.last = heads[0].ID, heads[n-1].ID
		if in.stop = in.last; back {
			in.stop = in.first
		}
	}
	page.Pager = ap.pages.pagerOf(in)
	return ap.pages.draw(c, http.StatusOK, v, "transcripts", frame{Title: "Transcripts", Nav: "/audit"}, page)
}

// transcriptsOf is the number of transcripts of a task or credential, for its
// page.
type transcriptsOf struct {
	Path string // path of their list; "" = the visitor may not read transcripts
	N    int
	Gone bool // the number is not available at the moment
}

// transcriptsOf counts the transcripts of a filter. An error does not fail the
// page, because people stop tasks and revoke credentials there.
func (ap *auditPages) transcriptsOf(v *visit, query string, f transcript.Filter) transcriptsOf {
	if ap.b.MayReadTranscripts(v.Principal) != nil {
		return transcriptsOf{}
	}
	n, err := ap.b.TranscriptCount(v.Principal, f)
	return transcriptsOf{Path: address(transcriptsPath, query), N: n, Gone: err != nil}
}

var transcriptHead = []string{"id", "at", "task_id", "lease_id", "rule", "tool", "method", "host", "path"}

func transcriptCells(h transcript.Head) []string {
	return []string{h.ID, h.At.UTC().Format("2006-01-02T15:04:05.000Z"), h.TaskID, h.LeaseID, h.Rule, h.Tool, h.Method, h.Host, h.Path}
}

// exportTranscripts exports the list that the page shows for the same query,
// without headers and bodies.
func (ap *auditPages) exportTranscripts(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		f := transcriptFilter(a)
		if err := a.done(); err != nil {
			return err
		}
		f.Limit = exportRows
		heads, err := ap.b.Transcripts(v.Principal, f)
		if err != nil {
			return err
		}
		x := ap.newExport(c, v, "transcripts", format, a.filter(), transcriptHead)
		x.open()
		for {
			for _, h := range heads {
				if err := x.row(func() []string { return transcriptCells(h) }, h); err != nil {
					return x.close(err)
				}
			}
			if len(heads) < exportRows {
				return x.close(nil)
			}
			f.After = heads[len(heads)-1].ID
			if heads, err = ap.b.Transcripts(v.Principal, f); err != nil {
				return x.close(err)
			}
		}
	}
}
