package transcripts

import (
	"context"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	list.Exporter
	list.TaskReader
	Transcripts(who broker.Principal, f transcript.Filter) ([]transcript.Head, error)
	Transcript(ctx context.Context, who broker.Principal, id string) (transcript.Transcript, error)
}

// Pages serves recorded requests of sandboxes.
type Pages struct {
	Broker  Broker
	Shell   *shell.Shell
	Cursors *list.Cursors
}

// Routes are the routes of the transcripts.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Shell.Page(list.TranscriptsPath, ps.transcripts),
		ps.Shell.Page(list.TranscriptsPath+".csv", ps.exportTranscripts(list.FormatCSV)),
		ps.Shell.Page(list.TranscriptsPath+".jsonl", ps.exportTranscripts(list.FormatJSONL)),
		ps.Shell.Page(list.TranscriptsPath+"/:id", ps.transcript),
	}
}
