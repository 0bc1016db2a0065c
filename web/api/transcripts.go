package api

import (
	"errors"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/egress/transcript"
	"ebb/web"
)

// Transcripts are what was written down of requests through this ebb's egress; *transcript.Store
// has them.
type Transcripts interface {
	List(f transcript.Filter) ([]transcript.Head, error)
	Read(id string) (transcript.Transcript, error)
}

// noTranscripts answers for an ebb that has never written one.
type noTranscripts struct{}

func (noTranscripts) List(transcript.Filter) ([]transcript.Head, error) { return nil, nil }

func (noTranscripts) Read(string) (transcript.Transcript, error) {
	return transcript.Transcript{}, transcript.ErrNotFound
}

// transcripts lists them without what was said in them.
func (a *API) transcripts(c echo.Context, who broker.Principal, _ web.None) (page[transcript.Head], error) {
	if err := a.b.MayReadTranscripts(who); err != nil {
		return page[transcript.Head]{}, err
	}
	q := readQuery(c)
	f := transcript.Filter{TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	if err := q.done(); err != nil {
		return page[transcript.Head]{}, err
	}
	list, err := a.cfg.Transcripts.List(f)
	if err != nil {
		return page[transcript.Head]{}, unreadable(err)
	}
	return paged(list, f.Limit, func(h transcript.Head) string { return h.ID }), nil
}

// transcript is one, whole. That it was read is on the record before.
func (a *API) transcript(c echo.Context, who broker.Principal, _ web.None) (transcript.Transcript, error) {
	var none transcript.Transcript
	if err := a.b.MayReadTranscripts(who); err != nil {
		return none, err
	}
	t, err := a.cfg.Transcripts.Read(c.Param("id"))
	switch {
	case errors.Is(err, transcript.ErrNotFound):
		return none, broker.E(broker.NotFound, "There is no such transcript at this ebb, or it was too old and is erased.", err)
	case errors.Is(err, transcript.ErrTorn):
		return none, broker.E(broker.NotFound, "The file of this transcript is not whole, and will not be: the machine has ended over it. What is known of the request is on the record.", err)
	case err != nil:
		return none, unreadable(err)
	}
	web.EventOf(c).TaskID = t.TaskID
	if err := a.b.TranscriptRead(c.Request().Context(), who, t.ID, t.TaskID, t.LeaseID); err != nil {
		return none, err
	}
	return t, nil
}
