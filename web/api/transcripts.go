package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/transcript"
	"ebb/web"
)

// transcripts lists what was written down of requests through this ebb's egress, without what was
// said in them.
func (a *API) transcripts(c echo.Context, who broker.Principal, _ web.None) (page[transcript.Head], error) {
	q := readQuery(c)
	f := transcript.Filter{TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	if err := q.done(); err != nil {
		return page[transcript.Head]{}, err
	}
	if f.After != "" && !transcript.ValidID(f.After) {
		return page[transcript.Head]{}, malformed("The query parameter after is not a cursor of this list.")
	}
	list, err := a.b.Transcripts(who, f)
	if err != nil {
		return page[transcript.Head]{}, err
	}
	return paged(list, f.Limit, func(h transcript.Head) string { return h.ID }), nil
}

// transcript is one, whole. That it was read is on the record before.
func (a *API) transcript(c echo.Context, who broker.Principal, _ web.None) (transcript.Transcript, error) {
	t, err := a.b.Transcript(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = t.TaskID
	return t, err
}
