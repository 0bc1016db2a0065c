package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/web"
)

type checkpointList struct {
	Items []audit.Checkpoint `json:"items"`
}

func (a *API) checkpoints(c echo.Context, who broker.Principal, _ web.None) (checkpointList, error) {
	list, err := a.b.Checkpoints(c.Request().Context(), who)
	if list == nil {
		list = []audit.Checkpoint{}
	}
	return checkpointList{list}, err
}

// audit is GET /v1/audit: a page, or with format=jsonl everything that matches
// as it is verified offline: entries, then checkpoints.
func (a *API) audit(c echo.Context) error {
	who, err := a.authenticate(c)
	if err != nil {
		return err
	}
	q := readQuery(c)
	f := broker.EntryFilter{
		TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), RequestID: q.text("request_id"),
		Kind: q.text("kind"), Actor: q.text("actor"), From: q.time("from"), To: q.time("to"),
	}
	export := q.oneOf("format", "json", "jsonl") == "jsonl"
	kept := q.flag("kept")
	p := q.page()
	f.Desc = p.Desc
	if err := q.done(); err != nil {
		return err
	}
	if export {
		f.Desc = false
		return a.export(c, who, f, kept)
	}
	if kept {
		return malformed("What was kept of answers comes with format=jsonl alone.")
	}
	return a.auditPage(c, who, f, p)
}

func (a *API) auditPage(c echo.Context, who broker.Principal, f broker.EntryFilter, p broker.Page) error {
	after, err := parseEntryCursor(p.After)
	if err != nil {
		return err
	}
	after.bound(&f)
	entries, err := a.b.Entries(c.Request().Context(), who, f)
	if err != nil {
		return err
	}
	list := make([]audit.Entry, 0, p.Limit)
	for e, err := range entries {
		if err != nil {
			return unreadable(err)
		}
		if !after.passed(e, f.Desc) {
			continue
		}
		if list = append(list, e); len(list) == p.Limit {
			break
		}
	}
	return web.WriteJSON(c, http.StatusOK, paged(list, p.Limit, cursorOf))
}

func unreadable(err error) error {
	return &broker.Error{Kind: broker.Unavailable, Public: "The record cannot be read at the moment; try again shortly.", Cause: err, RetryAfter: 5 * time.Second}
}

// entryCursor is the place of an entry in the order of the record: by time, then
// writer, then sequence.
type entryCursor struct {
	at     time.Time
	writer string
	seq    int64
}

func cursorOf(e audit.Entry) string {
	return strconv.FormatInt(e.At.UnixMilli(), 10) + "." + strconv.FormatInt(e.Seq, 10) + "." + e.Writer
}

func parseEntryCursor(s string) (entryCursor, error) {
	if s == "" {
		return entryCursor{}, nil
	}
	ms, rest, _ := strings.Cut(s, ".")
	seq, writer, _ := strings.Cut(rest, ".")
	at, err1 := strconv.ParseInt(ms, 10, 64)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if err1 != nil || err2 != nil || at <= 0 || n <= 0 || writer == "" {
		return entryCursor{}, malformed("The query parameter after is not a cursor of this list.")
	}
	return entryCursor{time.UnixMilli(at).UTC(), writer, n}, nil
}

// bound lets the store skip most of what passed drops.
func (k entryCursor) bound(f *broker.EntryFilter) {
	switch end := k.at.Add(time.Millisecond); {
	case k.writer == "":
	case f.Desc && (f.To.IsZero() || end.Before(f.To)):
		f.To = end
	case !f.Desc && k.at.After(f.From):
		f.From = k.at
	}
}

// passed reports whether e comes after the cursor.
func (k entryCursor) passed(e audit.Entry, desc bool) bool {
	if k.writer == "" {
		return true
	}
	order := e.At.Compare(k.at)
	if order == 0 {
		order = strings.Compare(e.Writer, k.writer)
	}
	if order == 0 {
		order = int(min(max(e.Seq-k.seq, -1), 1))
	}
	if desc {
		return order < 0
	}
	return order > 0
}
