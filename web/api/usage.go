package api

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// usageAPI serves /v1 for the use of credentials: summaries and transcripts.
type usageAPI struct {
	b usageBroker
}

// usageBroker is the part of the broker that usageAPI calls.
type usageBroker interface {
	Usage(ctx context.Context, who broker.Principal, from time.Time, by broker.UsageBy) (broker.Usage, error)
	Transcripts(who broker.Principal, f transcript.Filter) ([]transcript.Head, error)
	Transcript(ctx context.Context, who broker.Principal, id string) (transcript.Transcript, error)
}

// usage returns the first rows of the summary of issued and used credentials.
func (ua *usageAPI) usage(c echo.Context, who broker.Principal, _ web.None) (wire.Usage, error) {
	q := readQuery(c)
	from := q.time("from")
	by := broker.UsageBy(cmp.Or(q.oneOf("by", string(report.UsageByScope), string(report.UsageByOwner), string(report.UsageByTask)), string(report.UsageByScope)))
	limit := q.number("limit", defaultPage, 1, report.UsageRows)
	if err := q.done(); err != nil {
		return wire.Usage{}, err
	}
	u, err := ua.b.Usage(c.Request().Context(), who, from, by)
	if err != nil {
		return wire.Usage{}, err
	}
	return wireUsage(u.First(limit)), nil
}

// transcripts lists the transcripts of this ebb's egress, without headers and
// bodies.
func (ua *usageAPI) transcripts(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.TranscriptHead], error) {
	q := readQuery(c)
	f := transcript.Filter{TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	if err := q.done(); err != nil {
		return wire.List[wire.TranscriptHead]{}, err
	}
	if f.After != "" && !transcript.ValidID(f.After) {
		return wire.List[wire.TranscriptHead]{}, malformed("The query parameter after is not a cursor of this list.")
	}
	list, err := ua.b.Transcripts(who, f)
	if err != nil {
		return wire.List[wire.TranscriptHead]{}, err
	}
	return paged(list, f.Limit, func(h transcript.Head) string { return h.ID }, wireTranscriptHead), nil
}

// transcript returns a whole transcript. The broker writes the audit entry of
// the read first.
func (ua *usageAPI) transcript(c echo.Context, who broker.Principal, _ web.None) (wire.Transcript, error) {
	t, err := ua.b.Transcript(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = t.TaskID
	return wireTranscript(t), err
}

func wireTranscript(t transcript.Transcript) wire.Transcript {
	return wire.Transcript{
		TranscriptHead: wireTranscriptHead(t.Head), Query: t.Query,
		Request: wireTranscriptMessage(t.Request), Answer: ref(t.Answer, wireTranscriptMessage),
	}
}

func wireTranscriptHead(h transcript.Head) wire.TranscriptHead {
	return wire.TranscriptHead{
		ID: h.ID, At: h.At, TaskID: h.TaskID, LeaseID: h.LeaseID, Rule: h.Rule, Tool: h.Tool, Host: h.Host, Method: h.Method, Path: h.Path,
	}
}

func wireUsage(u broker.Usage) wire.Usage {
	return wire.Usage{
		From: u.From, Cut: u.Cut, UsesFrom: u.UsesFrom, At: u.At, By: wire.UsageBy(u.By), HandedOut: u.HandedOut, Carried: u.Carried,
		Items: each(u.Items, func(g broker.GrantUsage) wire.GrantUsage { return wire.GrantUsage(g) }), More: u.More,
	}
}

func wireTranscriptMessage(m transcript.Message) wire.TranscriptMessage {
	return wire.TranscriptMessage{
		Status: m.Status, Headers: m.Headers, Cut: m.Cut,
		Body: wire.TranscriptBody{
			Type: m.Body.Type, Bytes: m.Body.Bytes, Text: m.Body.Text, LeftOut: m.Body.LeftOut, Withheld: wire.Withheld(m.Body.Withheld),
		},
	}
}
