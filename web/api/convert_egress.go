package api

import (
	"encoding/json"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/wire"
)

func brokerBoxSpec(s wire.BoxSpec) broker.BoxSpec {
	return broker.BoxSpec{Tool: s.Tool, Identity: broker.BoxIdentity(s.Identity), Forward: s.Forward, ID: s.ID}
}

func wireBox(b broker.Box) wire.Box {
	return wire.Box{
		ID: b.ID, TaskID: b.TaskID, Tool: b.Tool, Socket: b.Socket, CA: b.CA,
		Identity: wire.BoxIdentity(b.Identity), State: wire.BoxState(b.State), ExpiresAt: b.ExpiresAt,
	}
}

func wireTranscriptHead(h transcript.Head) wire.TranscriptHead {
	return wire.TranscriptHead{
		ID: h.ID, At: h.At, TaskID: h.TaskID, LeaseID: h.LeaseID, Rule: h.Rule, Tool: h.Tool, Host: h.Host, Method: h.Method, Path: h.Path,
	}
}

func wireTranscript(t transcript.Transcript) wire.Transcript {
	return wire.Transcript{
		TranscriptHead: wireTranscriptHead(t.Head), Query: t.Query,
		Request: wireTranscriptMessage(t.Request), Answer: ref(t.Answer, wireTranscriptMessage),
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

// wireAuditEntry converts through the entry's canonical JSON, which the hash
// covers, so that times and data keep their spelling.
func wireAuditEntry(e audit.Entry) (out wire.AuditEntry, err error) {
	err = canonical(e, &out)
	return out, err
}

// wireCheckpoint converts through the checkpoint's canonical JSON, which its
// signature covers.
func wireCheckpoint(c audit.Checkpoint) (out wire.Checkpoint, err error) {
	err = canonical(c, &out)
	return out, err
}

func canonical(v json.Marshaler, into any) error {
	text, err := v.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
