package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// Only entries about requests, or about a reading, name a transcript, and only by an id.
func TestTranscriptOf(t *testing.T) {
	t.Parallel()
	id := transcript.NewID()
	for want, entries := range map[string][]audit.Entry{
		id: {
			{Kind: audit.EgressAllowed, Data: []byte(`{"transcript":"` + id + `"}`)}, {Kind: audit.EgressCompleted, Data: []byte(`{"transcript":"` + id + `"}`)}, {Kind: audit.TranscriptRead, Data: []byte(`{"transcript":"` + id + `"}`)},
		},
		"": {
			{Kind: audit.EgressAllowed}, {Kind: audit.EgressAllowed, Data: []byte(`{"transcript":"` + issuance.WithoutTranscript + `"}`)}, {Kind: audit.EgressAllowed, Data: []byte(`{"transcript":"../` + id + `"}`)},
			{Kind: audit.EgressAllowed, Data: []byte(`{"transcript":7}`)}, {Kind: audit.EgressAllowed, Data: []byte(`{"path":"` + id + `"}`)}, {Kind: audit.TaskOpened, Data: []byte(`{"transcript":"` + id + `"}`)},
		},
	} {
		for _, e := range entries {
			if got := issuance.TranscriptOf(e); got != want {
				t.Errorf("%s %s names %q, want %q", e.Kind, e.Data, got, want)
			}
		}
	}
}

// Only auditors see the number of transcripts; without any transcript ever written, there is none.
func TestTranscriptCount(t *testing.T) {
	t.Parallel()
	store, err := transcript.Open(transcript.Config{Dir: t.TempDir() + "/transcripts", Bytes: 1 << 20, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	env, without := brokertest.New(t, brokertest.Config{Transcripts: store}), brokertest.New(t, brokertest.Config{})
	for _, who := range []string{brokertest.Viewer, brokertest.Approver, brokertest.Runner, brokertest.Operator2, brokertest.Server} {
		if _, err := env.Broker.TranscriptCount(env.Principals[who], transcript.Filter{}); broker.AsError(err).Kind != broker.Forbidden {
			t.Errorf("%s: %v", who, err)
		}
	}
	auditor := without.Principals[brokertest.Auditor]
	n, err := without.Broker.TranscriptCount(auditor, transcript.Filter{})
	list, listErr := without.Broker.Transcripts(auditor, transcript.Filter{})
	_, readErr := without.Broker.Transcript(t.Context(), auditor, transcript.NewID())
	if n != 0 || err != nil || len(list) != 0 || listErr != nil || broker.AsError(readErr).Kind != broker.NotFound {
		t.Errorf("of none: %d, %v, %v, %v, %v", n, err, list, listErr, readErr)
	}
}
