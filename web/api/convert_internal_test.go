package api

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

// answer is the conversion of one core type, and a value of that type with every field set.
type answer struct {
	name string
	core any
	wire func(any) (any, error)
	// hidden are the exported fields that the API leaves out, each with the reason.
	hidden map[string]string
}

// of makes an answer of a conversion that cannot fail.
func of[From, To any](name string, core From, convert func(From) To, hidden ...string) answer {
	return ofErr(name, core, func(v From) (To, error) { return convert(v), nil }, hidden...)
}

// ofErr makes an answer. hidden alternates between a field and a reason.
func ofErr[From, To any](name string, core From, convert func(From) (To, error), hidden ...string) answer {
	a := answer{name: name, core: core, wire: func(v any) (any, error) { return convert(v.(From)) }, hidden: map[string]string{}}
	for pair := range slices.Chunk(hidden, 2) {
		a.hidden[pair[0]] = pair[1]
	}
	return a
}

func entry(t *testing.T) audit.Entry {
	e := filled[audit.Entry](t)
	e.Hash = strings.Repeat("0a", 32)
	return e
}

func checkpoint(t *testing.T) audit.Checkpoint {
	return audit.Checkpoint{At: filled[time.Time](t), Heads: map[string]audit.Head{"w1": {Seq: 7, Hash: strings.Repeat("0b", 32)}}, JWS: "a.b.c"}
}

const (
	inner   = "only ebb itself works with it"
	elsehow = "GET /v1/requests/{id} does not show what approvers saw or signed; the export has it"
)

// answers are all conversions of answers.
func answers(t *testing.T) []answer {
	return []answer{
		of("Task", filled[broker.Task](t), wireTask),
		of("Completion", filled[broker.Completion](t), wireCompletion, "Credentials.Upstream.Unjudged", inner, "Credentials.Upstream.Handle", inner),
		of("OwnerStop", filled[broker.OwnerStop](t), wireOwnerStop),
		of("Receipt", filled[receipt.Receipt](t), wireReceipt),
		of("Box", filled[broker.EgressEndpoint](t), wireEgressEndpoint, "Above", inner),
		of("Lease", filled[broker.Lease](t), wireLease, "Upstream.Unjudged", inner, "Upstream.Handle", "the sealed handle of a credential"),
		of("Provider", filled[provideradmin.ProviderState](t), wireProvider),
		of("SelfTest", filled[provideradmin.SelfTest](t), wireSelfTest),
		ofErr("Request", filled[broker.Request](t), wireRequest, "Rank", inner, "Dedupe", inner, "Parents", inner, "Replaced", elsehow,
			"Votes.Also", "other names of a person", "Votes.Proof", elsehow, "Votes.Snapshot", elsehow, "Votes.ShownAt", elsehow),
		of("StoredSecret", filled[provideradmin.StoredSecret](t), wireSecret),
		of("Usage", filled[broker.Usage](t), wireUsage),
		of("TranscriptHead", filled[transcript.Head](t), wireTranscriptHead),
		of("Transcript", filled[transcript.Transcript](t), wireTranscript),
		of("Attestor", filled[identity.AttestorState](t), wireAttestor),
		of("EvidenceExplanation", filled[identity.EvidenceExplanation](t), wireEvidenceExplanation),
		of("BreakGlass", filled[broker.BreakGlass](t), wireBreakGlass, "Also", "other names of a person", "Proof", elsehow, "Session", inner, "Groups", inner),
		of("Policy", filled[policyset.InForce](t), wirePolicy),
		of("Explanation", filled[policy.Explanation](t), wireExplanation),
		of("Event", filled[broker.Event](t), wireEvent),
		of("Endpoint", filled[provider.Endpoint](t), wireEndpoint),
		ofErr("Entry", entry(t), wireAuditEntry),
		ofErr("Checkpoint", checkpoint(t), wireCheckpoint),
	}
}

// No exported field of the core is lost in the API: setting it to its zero
// value changes the JSON.
func TestNoFieldIsLost(t *testing.T) {
	t.Parallel()
	for _, a := range answers(t) {
		full, err := a.json(a.core)
		if err != nil {
			t.Errorf("%s: %v", a.name, err)
			continue
		}
		var hidden []string
		for _, path := range fieldsOf(reflect.TypeOf(a.core), "") {
			without := reflect.New(reflect.TypeOf(a.core)).Elem()
			without.Set(clone(reflect.ValueOf(a.core)))
			clear(without, strings.Split(path, "."))
			if got, err := a.json(without.Interface()); err == nil && got == full { // an entry without a time is an error
				if top, _, _ := strings.Cut(path, "."); a.hidden[top] != "" {
					path = top // the whole member is omitted
				}
				hidden = append(hidden, path)
			}
		}
		var want []string
		for path := range a.hidden {
			want = append(want, path)
		}
		slices.Sort(hidden)
		slices.Sort(want)
		if hidden = slices.Compact(hidden); !slices.Equal(hidden, want) {
			t.Errorf("%s: the API leaves out %v; listed with a reason are %v", a.name, hidden, want)
		}
	}
}

func (a answer) json(core any) (string, error) {
	v, err := a.wire(core)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// body is the conversion of one request body.
type body struct {
	name string
	core any
	read func(text []byte) (core, wire any, err error)
}

func bodyOf[Wire, Core any](t *testing.T, name string, core Core, convert func(Wire) (Core, error)) body {
	return body{name: name, core: core, read: func(text []byte) (any, any, error) {
		var w Wire
		if err := strict.Unmarshal(text, &w, strict.RejectUnknownMembers(true)); err != nil {
			return nil, nil, err
		}
		c, err := convert(w)
		return c, w, err
	}}
}

// sure adds a nil error to a conversion that cannot fail.
func sure[From, To any](convert func(From) To) func(From) (To, error) {
	return func(v From) (To, error) { return convert(v), nil }
}

// bodies are all conversions of bodies, under their names in the golden file.
func bodies(t *testing.T) []body {
	spec, box, selfTest := sure(brokerEndpointSpec), sure(brokerEvidenceQuery), brokerSelfTestSpec
	approved, denied := filledAs[broker.Verdict](t, "approval"), filledAs[broker.Verdict](t, "denial")
	approved = broker.Verdict{Approve: true, Digest: approved.Digest, Scopes: approved.Scopes, TTL: approved.TTL, Note: approved.Note, Target: approved.Target}
	denied = broker.Verdict{Digest: denied.Digest, Code: denied.Code, Note: denied.Note}
	explain := func(b wire.ExplainBody) (policy.Query, error) { return policyQuery(b.Query) }
	return []body{
		bodyOf(t, "TaskSpec body", filled[broker.TaskSpec](t), brokerTaskSpec),
		bodyOf(t, "TaskSpec body empty", broker.TaskSpec{}, brokerTaskSpec),
		bodyOf(t, "EgressEndpointSpec body", filled[broker.EgressEndpointSpec](t), spec),
		bodyOf(t, "EgressEndpointSpec body empty", broker.EgressEndpointSpec{}, spec),
		bodyOf(t, "EvidenceQuery body", filled[identity.EvidenceQuery](t), box),
		bodyOf(t, "EvidenceQuery body empty", identity.EvidenceQuery{}, box),
		bodyOf(t, "SelfTestSpec body", filled[provideradmin.SelfTestSpec](t), selfTest),
		bodyOf(t, "SelfTestSpec body empty", provideradmin.SelfTestSpec{}, selfTest),
		bodyOf(t, "Approval body", approved, brokerApproval),
		bodyOf(t, "Denial body", denied, sure(brokerDenial)),
		bodyOf(t, "Explain body", filled[policy.Query](t), explain),
		bodyOf(t, "Explain body empty", policy.Query{}, explain),
		bodyOf(t, "Reason body", filledAs[wire.ReasonBody](t, "reasonBody"), sure(same[wire.ReasonBody])),
		bodyOf(t, "Taint body", filledAs[wire.TaintBody](t, "taintBody"), sure(same[wire.TaintBody])),
		bodyOf(t, "Namespace body", filled[wire.NamespaceBody](t), sure(same[wire.NamespaceBody])),
		bodyOf(t, "Secret body", filledAs[wire.SecretBody](t, "secretBody"), sure(same[wire.SecretBody])),
		bodyOf(t, "Enrolment body", filledAs[wire.EnrolmentBody](t, "enrolment"), sure(same[wire.EnrolmentBody])),
		bodyOf(t, "Challenge body", filledAs[wire.ChallengeBody](t, "challengeRequest"), sure(same[wire.ChallengeBody])),
		// The bytes of the facts are passed unchanged: wire.Facts only
		// describes them.
		bodyOf(t, "Facts", filled[broker.FactSheet](t), factSheet),
	}
}

// factSheet decodes the JSON of wire facts as the core does.
func factSheet(f wire.Facts) (sheet broker.FactSheet, err error) {
	text, err := json.Marshal(f)
	if err != nil {
		return sheet, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return sheet, d.Decode(&sheet)
}

// A body sent before the API had its own types is decoded to the same core
// value, and encoded to the same bytes.
func TestBodiesAreGolden(t *testing.T) {
	t.Parallel()
	lines := golden(t)
	for _, b := range bodies(t) {
		core, w, err := b.read([]byte(lines[b.name]))
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		if !reflect.DeepEqual(core, b.core) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", b.name, core, b.core)
		}
		if again, err := json.Marshal(w); err != nil || string(again) != lines[b.name] {
			t.Errorf("%s: %v\ngot  %s\nwant %s", b.name, err, again, lines[b.name])
		}
	}
}

// A scope or number that the core does not accept is refused by its path,
// without its value.
func TestBodiesAreRefused(t *testing.T) {
	t.Parallel()
	const odd = "SECRET"
	q := func(change func(*wire.PolicyQuery)) error {
		var v wire.PolicyQuery
		change(&v)
		_, err := policyQuery(v)
		return err
	}
	_, spec := brokerTaskSpec(wire.TaskSpec{Ceiling: odd})
	_, selfTest := brokerSelfTestSpec(wire.SelfTestSpec{Scopes: odd})
	_, yes := brokerApproval(wire.ApprovalBody{Scopes: odd})
	for at, err := range map[string]error{
		"/ceiling": spec, "/scope": selfTest, "/scope ": yes,
		"/query/scope":            q(func(q *wire.PolicyQuery) { q.Scopes = odd }),
		"/query/ttl_seconds":      q(func(q *wire.PolicyQuery) { q.TTL = 1 << 62 }),
		"/query/task/age_seconds": q(func(q *wire.PolicyQuery) { q.Task.Age = 1 << 62 }),
		"/query/revocation_bound": q(func(q *wire.PolicyQuery) { q.Bound = 1 << 62 }),
	} {
		e := broker.AsError(err)
		if err == nil || e.Kind != broker.Invalid || e.Public != "The body has a wrong value at "+strings.TrimSpace(at)+"." {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func golden(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/wire.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		lines[name] = value
	}
	return lines
}
