package api

import (
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// transcripts lists the transcripts of this ebb's egress, without headers and
// bodies.
func (la *leaseAPI) transcripts(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.TranscriptHead], error) {
	q := readQuery(c)
	f := transcript.Filter{TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	if err := q.done(); err != nil {
		return wire.List[wire.TranscriptHead]{}, err
	}
	if f.After != "" && !transcript.ValidID(f.After) {
		return wire.List[wire.TranscriptHead]{}, malformed("The query parameter after is not a cursor of this list.")
	}
	list, err := la.b.Transcripts(who, f)
	if err != nil {
		return wire.List[wire.TranscriptHead]{}, err
	}
	return paged(list, f.Limit, func(h transcript.Head) string { return h.ID }, wireTranscriptHead), nil
}

// transcript returns a whole transcript. The broker writes the audit entry of
// the read first.
func (la *leaseAPI) transcript(c echo.Context, who broker.Principal, _ web.None) (wire.Transcript, error) {
	t, err := la.b.Transcript(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = t.TaskID
	return wireTranscript(t), err
}
