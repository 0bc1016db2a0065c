package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/transcript"
)

// MayReadTranscripts says whether who may read what was written down of requests through egress:
// it holds what was said in them.
func (b *Broker) MayReadTranscripts(who Principal) error {
	return allow(who, certain, RoleAuditor)
}

// Transcripts lists what was written down at this ebb, without what was said.
func (b *Broker) Transcripts(who Principal, f transcript.Filter) ([]transcript.Head, error) {
	if err := b.MayReadTranscripts(who); err != nil {
		return nil, err
	}
	if b.cfg.Transcripts == nil {
		return nil, nil
	}
	list, err := b.cfg.Transcripts.List(f)
	if err != nil {
		return nil, transcriptsUnreadable(err)
	}
	return list, nil
}

// TranscriptCount is how many of them a filter selects, on all of its pages.
func (b *Broker) TranscriptCount(who Principal, f transcript.Filter) (int, error) {
	if err := b.MayReadTranscripts(who); err != nil {
		return 0, err
	}
	if b.cfg.Transcripts == nil {
		return 0, nil
	}
	n, err := b.cfg.Transcripts.Count(f)
	if err != nil {
		return 0, transcriptsUnreadable(err)
	}
	return n, nil
}

// Transcript is one, whole. That it was read is on the record before; without that nobody gets it
// (I11). Whoever shows one to somebody has it from here.
func (b *Broker) Transcript(ctx context.Context, who Principal, id string) (transcript.Transcript, error) {
	var none transcript.Transcript
	if err := b.MayReadTranscripts(who); err != nil {
		return none, err
	}
	t, err := none, transcript.ErrNotFound
	if b.cfg.Transcripts != nil {
		t, err = b.cfg.Transcripts.Read(id)
	}
	switch {
	case errors.Is(err, transcript.ErrNotFound):
		return none, E(NotFound, "There is no such transcript at this ebb, or it was too old and is erased.", err)
	case errors.Is(err, transcript.ErrTorn):
		return none, E(NotFound, "The file of this transcript is not whole, and will not be: the machine has ended over it. What is known of the request is on the record.", err)
	case err != nil:
		return none, transcriptsUnreadable(err)
	}
	e := b.taskEntry(audit.TranscriptRead, who.ID, t.TaskID, map[string]string{"transcript": t.ID})
	e.LeaseID = t.LeaseID
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{e}}); err != nil {
		return none, unavailable(err)
	}
	return t, nil
}

func transcriptsUnreadable(err error) error {
	return &Error{Kind: Unavailable, Public: "Transcripts cannot be read at the moment; try again shortly.", Cause: err, RetryAfter: 5 * time.Second}
}

// TranscriptOf is the transcript that an entry names: of the request that it tells of, or the one
// that was read. "" = it names none.
func TranscriptOf(e audit.Entry) string {
	var x struct {
		Transcript string `json:"transcript"`
	}
	switch e.Kind {
	case audit.EgressAllowed, audit.EgressCompleted, audit.TranscriptRead:
		if json.Unmarshal(e.Data, &x) == nil && transcript.ValidID(x.Transcript) {
			return x.Transcript
		}
	}
	return ""
}
