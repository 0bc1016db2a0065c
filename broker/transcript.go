package broker

import (
	"context"

	"ebb/broker/audit"
)

// MayReadTranscripts says whether who may read what was written down of requests through egress:
// it holds what was said in them.
func (b *Broker) MayReadTranscripts(who Principal) error {
	return allow(who, certain, RoleAuditor)
}

// TranscriptRead records that who reads a transcript. Without the record it is not shown (I11).
func (b *Broker) TranscriptRead(ctx context.Context, who Principal, id, taskID, leaseID string) error {
	e := b.taskEntry(audit.TranscriptRead, who.ID, taskID, map[string]string{"transcript": id})
	e.LeaseID = leaseID
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{e}}); err != nil {
		return unavailable(err)
	}
	return nil
}
