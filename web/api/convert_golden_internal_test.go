package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

// must drops the error of a conversion.
func must[From, To any](t *testing.T, convert func(From) (To, error), v From) To {
	t.Helper()
	out, err := convert(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// samples returns responses of the API under their names in the golden file:
// each with all members set, and empty.
func samples(t *testing.T) map[string]any {
	task, lease := filled[broker.Task](t), filled[broker.Lease](t)
	at := filled[time.Time](t)
	ticket := &broker.Ticket{Ticket: secret.New("ebb_tkt_x"), ExpiresAt: at}
	other := broker.Task{ID: "tsk_1", Ceiling: lease.Scopes, Deadline: lease.ExpiresAt, Caps: broker.Caps{Uses: 3}, Expect: filled[broker.Expect](t)}
	return map[string]any{
		"OpenedTask":                wireOpenedTask(task, ticket),
		"OpenedTask without ticket": wireOpenedTask(broker.Task{}, nil),
		"Task":                      wireTask(task),
		"Task empty":                wireTask(broker.Task{}),
		"List of Task":              paged([]broker.Task{task}, 1, func(broker.Task) string { return "next" }, wireTask),
		"List of Task empty":        paged[broker.Task](nil, 1, nil, wireTask),
		"Ticket":                    wireTicket(*ticket),
		"Completion":                wireCompletion(filled[broker.Completion](t)),
		"Completion empty":          wireCompletion(broker.Completion{}),
		"OwnerStop":                 wireOwnerStop(filled[broker.OwnerStop](t)),
		"OwnerStop empty":           wireOwnerStop(broker.OwnerStop{}),
		"Receipt":                   wire.ReceiptAnswer{Receipt: "a.b.c", Contents: wireReceipt(filled[receipt.Receipt](t))},
		"Receipt empty":             wire.ReceiptAnswer{Receipt: "a.b.c", Contents: wireReceipt(receipt.Receipt{})},
		"EgressEndpoint":            wireEgressEndpoint(filled[broker.EgressEndpoint](t)),
		"EgressEndpoint empty":      wireEgressEndpoint(broker.EgressEndpoint{}),
		"Lease":                     wireLease(lease),
		"Lease empty":               wireLease(broker.Lease{}),
		"Provider list":             wire.List[wire.Provider]{Items: each([]provideradmin.ProviderState{filled[provideradmin.ProviderState](t), {}}, wireProvider)},
		"Provider list empty":       wire.List[wire.Provider]{Items: each(nil, wireProvider)},
		"SelfTest":                  wireSelfTest(filled[provideradmin.SelfTest](t)),
		"SelfTest empty":            wireSelfTest(provideradmin.SelfTest{}),
		"Request":                   must(t, wireRequest, filled[broker.Request](t)),
		"Request empty":             must(t, wireRequest, broker.Request{}),
		"StoredSecret":              wireSecret(filled[provideradmin.StoredSecret](t)),
		"Usage":                     wireUsage(filled[broker.Usage](t)),
		"Usage empty":               wireUsage(broker.Usage{}),
		"TranscriptHead":            wireTranscriptHead(filled[transcript.Head](t)),
		"Transcript":                wireTranscript(filled[transcript.Transcript](t)),
		"Transcript empty":          wireTranscript(transcript.Transcript{}),
		"Attestor list":             wire.List[wire.Attestor]{Items: each([]identity.AttestorState{filled[identity.AttestorState](t)}, wireAttestor)},
		"Attestor list empty":       wire.List[wire.Attestor]{Items: each(nil, wireAttestor)},
		"EvidenceExplanation":       wireEvidenceExplanation(filled[identity.EvidenceExplanation](t)),
		"EvidenceExplanation empty": wireEvidenceExplanation(identity.EvidenceExplanation{}),
		"BreakGlass":                wireBreakGlass(filled[broker.BreakGlass](t)),
		"BreakGlass empty":          wireBreakGlass(broker.BreakGlass{}),
		"Policy":                    wirePolicy(filled[policyset.InForce](t)),
		"Policy empty":              wirePolicy(policyset.InForce{}),
		"Explanation":               wireExplanation(filled[policy.Explanation](t)),
		"Explanation empty":         wireExplanation(policy.Explanation{}),
		"Checkpoint list":           wire.List[wire.Checkpoint]{Items: []wire.Checkpoint{must(t, wireCheckpoint, checkpoint(t))}},
		"Entry list":                wire.List[wire.AuditEntry]{Items: []wire.AuditEntry{must(t, wireAuditEntry, entry(t))}, Next: cursorOf(entry(t))},
		"Feed":                      wire.Feed{Events: each([]broker.Event{filled[broker.Event](t), {}}, wireEvent), Cursor: "c", MaxAge: 10, Audiences: []string{"a"}},
		"Own credentials":           wire.List[wire.OwnCredential]{Items: each([]broker.Lease{lease, {}}, wireOwnCredential)},
		"Delegated":                 wireDelegated(other, &broker.Ticket{Ticket: secret.New("ebb_tkt_x"), ExpiresAt: lease.IssuedAt}),
		"Delegated empty":           wireDelegated(broker.Task{}, nil),
		"Enrolled":                  wire.Enrolled{TaskToken: "tt", TokenType: "DPoP", ExpiresAt: lease.ExpiresAt, TaskID: "tsk_1", ClientID: "sbx_1"},
		"Challenge":                 wire.Challenge{Nonce: "n", Document: json.RawMessage(`{"a":1}`), ExpiresAt: lease.ExpiresAt},
		"Challenge empty":           wire.Challenge{},
		"Hold first":                wire.HoldLine{Held: true, TaskID: "tsk_1"},
		"Hold last":                 wire.HoldLine{TaskID: "tsk_1", Why: wire.HoldTaskClosed},
		"Backchannel":               wire.Backchannel{AuthReqID: "r", ExpiresIn: 60, Interval: 5},
		"Ready":                     wire.Ready{Status: "ready", Dependencies: []wire.Dependency{{Name: "n", State: "up", Warning: "w", Reason: "r"}, {Name: "n", State: "up"}}},
		"ServerMetadata":            filledAs[wire.ServerMetadata](t, "metadata"),
		"ServerMetadata empty":      wire.ServerMetadata{},
		"ResourceMetadata":          filledAs[wire.ResourceMetadata](t, "protectedResource"),
		"ResourceMetadata empty":    wire.ResourceMetadata{},
		"ProblemType":               filledAs[wire.ProblemType](t, "problemPage"),
		"SignInLink":                filledAs[wire.SignInLink](t, "signInLink"),
		"Export filter":             filled[audit.Filter](t).Line(),
		"Export checkpoint":         map[string]audit.Checkpoint{"checkpoint": checkpoint(t)},
		"Export kept":               map[string]audit.Kept{"kept": filled[audit.Kept](t)},
		"Endpoint":                  wireEndpoint(filled[provider.Endpoint](t)),
	}
}

// The golden file was recorded when the core's own types were the wire format:
// every byte must stay.
func TestAnswersAreGolden(t *testing.T) {
	t.Parallel()
	lines := golden(t)
	for _, b := range bodies(t) {
		delete(lines, b.name)
	}
	got := samples(t)
	for name, want := range lines {
		text, err := json.Marshal(got[name])
		if err != nil || string(text) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, text, want)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not in the golden file", name)
	}
}

// The token response is built by hand, because it is on the path of every mint.
// wire.Token reads and writes the same bytes.
func TestTokenAnswerIsWireToken(t *testing.T) {
	t.Parallel()
	tok := filled[broker.Token](t)
	tok.Token, tok.Class = secret.New("t.o.k <é>"), provider.ClassInstant
	tok.Format, tok.Type, tok.API, tok.LeaseID = "urn:x", "N_A", "", "lse_1"
	text, err := tokenAnswer(tok, false)
	if err != nil {
		t.Fatal(err)
	}
	var w wire.Token
	if err := json.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[wire.Token]().NumField() {
		if reflect.ValueOf(w).Field(i).IsZero() {
			t.Errorf("%s is not in the answer", reflect.TypeFor[wire.Token]().Field(i).Name)
		}
	}
	var plain, again any
	b, err := json.Marshal(w)
	if err != nil || json.Unmarshal(b, &again) != nil || json.Unmarshal(text, &plain) != nil || !reflect.DeepEqual(plain, again) {
		t.Errorf("%v\ngot  %s\nwant %s", err, b, text)
	}
}
