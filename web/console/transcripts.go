package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/broker/transcript"
)

const transcriptsPath = "/transcripts"

// shownPath is how much of a path the list draws, in bytes; the page of a transcript has all of it.
const shownPath = 160

type transcriptsPage struct {
	Filter  map[string]string
	Rows    []transcriptRow
	Address string
	CSV     string
	JSONL   string
	Pager   pager
}

// transcriptRow is a transcript as it is listed.
type transcriptRow struct{ transcript.Head }

// Torn: only its name is known.
func (r transcriptRow) Torn() bool { return r.Host == "" }

// Start is the beginning of the path, and how much is behind it.
func (r transcriptRow) Start() []said { return saidOf(beginning(r.Path, shownPath)) }

// transcriptFilter reads the filter of the list.
func transcriptFilter(a *asked) transcript.Filter {
	return transcript.Filter{TaskID: a.text("task"), LeaseID: a.text("lease")}
}

// transcripts lists what was written down of requests at this ebb, without what was said.
func (s *Console) transcripts(c echo.Context, v *visit) error {
	a := readAsked(c)
	f := transcriptFilter(a)
	after, before := a.cursor("after"), a.cursor("before")
	list := "transcripts?" + a.kept.Encode()
	place, back := s.place(a, list, after, before)
	if err := a.done(); err != nil {
		return err
	}
	if f.After = place; back {
		f.After, f.Before = "", place
	}
	f.Limit = listRows + 1 // one more says whether there are more
	heads, err := s.b.Transcripts(v.Principal, f)
	if err != nil {
		return err
	}
	in := paging{list: list, at: address(transcriptsPath, a.kept.Encode()), placed: place != "", back: back, more: len(heads) > listRows}
	if in.more && back {
		heads = heads[1:] // the newest are the furthest from the place
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
	page.Pager = s.pagerOf(in)
	return s.draw(c, http.StatusOK, v, "transcripts", frame{Title: "Transcripts", Nav: "/audit"}, page)
}

// transcriptsOf is what the page of a task or of a credential says of its transcripts.
type transcriptsOf struct {
	Path string // of their list; "" = they are not for who looks
	N    int
	Gone bool // nobody can say how many there are at the moment
}

// transcriptsOf counts those of a filter. That it cannot is no reason to have no page: things are
// ended there.
func (s *Console) transcriptsOf(v *visit, query string, f transcript.Filter) transcriptsOf {
	if s.b.MayReadTranscripts(v.Principal) != nil {
		return transcriptsOf{}
	}
	n, err := s.b.TranscriptCount(v.Principal, f)
	return transcriptsOf{Path: address(transcriptsPath, query), N: n, Gone: err != nil}
}

var transcriptHead = []string{"id", "at", "task_id", "lease_id", "rule", "tool", "method", "host", "path"}

func transcriptCells(h transcript.Head) []string {
	return []string{h.ID, h.At.UTC().Format("2006-01-02T15:04:05.000Z"), h.TaskID, h.LeaseID, h.Rule, h.Tool, h.Method, h.Host, h.Path}
}

// exportTranscripts sends exactly the list that the same query draws: nothing that was said.
func (s *Console) exportTranscripts(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		f := transcriptFilter(a)
		if err := a.done(); err != nil {
			return err
		}
		f.Limit = exportRows
		heads, err := s.b.Transcripts(v.Principal, f)
		if err != nil {
			return err
		}
		x := s.newExport(c, v, "transcripts", format, a.filter(), transcriptHead)
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
			if heads, err = s.b.Transcripts(v.Principal, f); err != nil {
				return x.close(err)
			}
		}
	}
}
