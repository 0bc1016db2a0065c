package api_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ebb-broker/ebb/web/wire"
)

// wireBodies are the types of request bodies, by operation.
var wireBodies = map[string]any{
	"token": wire.TokenForm{}, "backchannelAuthorize": wire.BackchannelForm{}, "introspect": wire.IntrospectionForm{}, "revoke": wire.RevocationForm{},
	"delegate": wire.DelegateForm{}, "hold": wire.HoldForm{}, "ownCredentials": wire.CredentialsForm{},
	"openTask": wire.TaskSpec{}, "pauseTask": wire.ReasonBody{}, "stopTask": wire.ReasonBody{}, "stopTasks": wire.OwnerStopBody{}, "taintTask": wire.TaintBody{},
	"openEndpoint": wire.EgressEndpointSpec{}, "registerEndpoint": wire.NamespaceBody{}, "enroll": wire.EnrolmentBody{}, "challenge": wire.ChallengeBody{},
	"approve": wire.ApprovalBody{}, "deny": wire.DenialBody{}, "revokeLease": wire.ReasonBody{}, "forceLease": wire.ReasonBody{},
	"explainEvidence": wire.EvidenceQuery{}, "selfTestProvider": wire.SelfTestSpec{}, "putSecret": wire.SecretBody{}, "explainPolicy": wire.ExplainBody{},
}

// wireAnswers are the types of JSON responses, by operation. nil marks a
// document without a type, such as this one.
var wireAnswers = map[string]any{
	"token": wire.Token{}, "backchannelAuthorize": wire.Backchannel{}, "introspect": wire.Introspection{}, "delegate": wire.Delegated{},
	"ownCredentials": wire.List[wire.OwnCredential]{}, "serverMetadata": wire.ServerMetadata{}, "openidConfiguration": wire.ServerMetadata{},
	"resourceMetadata": wire.ResourceMetadata{}, "jwks": wire.JWKS{}, "problemType": wire.ProblemType{}, "openapiJSON": nil, "openapiYAML": nil,
	"openTask": wire.OpenedTask{}, "listTasks": wire.List[wire.Task]{}, "showTask": wire.Task{}, "newTicket": wire.Ticket{},
	"signInLink": wire.SignInLink{}, "heartbeat": wire.Task{}, "pauseTask": wire.Task{}, "taintTask": wire.Task{}, "resumeTask": wire.Task{},
	"completeTask": wire.Completion{}, "stopTask": wire.Completion{}, "stopTasks": wire.OwnerStop{}, "openEndpoint": wire.EgressEndpoint{}, "registerEndpoint": wire.EgressEndpoint{}, "closeEndpoint": wire.EgressEndpoint{},
	"taskReceipt": wire.ReceiptAnswer{}, "enroll": wire.Enrolled{}, "challenge": wire.Challenge{}, "listRequests": wire.List[wire.Request]{},
	"showRequest": wire.Request{}, "approve": wire.Request{}, "deny": wire.Request{}, "listBreakGlass": wire.List[wire.BreakGlass]{},
	"listLeases": wire.List[wire.Lease]{}, "showLease": wire.Lease{}, "revokeLease": wire.Lease{}, "retryLease": wire.Lease{}, "forceLease": wire.Lease{},
	"listAttestors": wire.List[wire.Attestor]{}, "explainEvidence": wire.EvidenceExplanation{}, "showUsage": wire.Usage{},
	"listTranscripts": wire.List[wire.TranscriptHead]{}, "showTranscript": wire.Transcript{}, "listProviders": wire.List[wire.Provider]{},
	"selfTestProvider": wire.SelfTest{}, "secrets": wire.List[wire.StoredSecret]{}, "putSecret": wire.StoredSecret{}, "removeSecret": wire.StoredSecret{},
	"audit": wire.List[wire.AuditEntry]{}, "checkpoints": wire.List[wire.Checkpoint]{}, "revocations": wire.Feed{}, "policy": wire.Policy{},
	"explainPolicy": wire.Explanation{}, "livez": wire.Live{}, "readyz": wire.Ready{},
}

// undocumented are members and types that the document does not spell out, each with the reason.
var undocumented = map[string]string{
	"HoldLine":      "the answer of /oauth2/hold is lines, which OpenAPI 3.1 has no schema for",
	"ClientForm":    "embedded in the forms: its parameters are theirs",
	"PolicySandbox": "the document calls it an object; its members are those of the audit log's queries",
	"PolicyTask":    "the document calls it an object; its members are those of the audit log's queries",
	"PolicyRecord":  "the document calls it an object; its members are those of the audit log's queries",
	"Facts.sandbox": "the document calls it an object: it is a Sandbox",
	"Facts.ask":     "the document calls it an object: it is an Approvers",
	"Request.facts": "canonical JSON in the type; the schema is compared with wire.Facts",
	"List.next":     "listings that are never paged leave it out",
}

// comparison compares the document with the types.
type comparison struct {
	t    *testing.T
	seen map[string]bool // types that some schema describes
}

// Each schema has exactly the members of its type, and each type of package wire is in the document.
func TestDocumentHasTheWireTypes(t *testing.T) {
	t.Parallel()
	c := &comparison{t: t, seen: map[string]bool{}}
	doc := document(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			c.operation(method+" "+path, op)
		}
	}
	c.schema("Problem", doc.Components.Schemas["Problem"].Value, reflect.TypeFor[wire.Problem]())
	c.schema("OAuthError", doc.Components.Schemas["OAuthError"].Value, reflect.TypeFor[wire.OAuthError]())
	c.schema("Facts", doc.Components.Schemas["Facts"].Value, reflect.TypeFor[wire.Facts]())
	for _, name := range exportedStructs(t) {
		if !c.seen[name] && undocumented[name] == "" {
			t.Errorf("wire.%s is not in the document: describe it, or list it with a reason", name)
		}
	}
}

func (c *comparison) operation(at string, op *openapi3.Operation) {
	id := op.OperationID
	if op.RequestBody != nil {
		for kind, media := range op.RequestBody.Value.Content {
			body, known := wireBodies[id]
			if !known {
				c.t.Errorf("%s: the body (%s) of %s has no wire type", at, kind, id)
				continue
			}
			c.schema(id+" body", media.Schema.Value, reflect.TypeOf(body))
		}
	}
	for status, response := range op.Responses.Map() {
		media := response.Value.Content.Get("application/json")
		if status == "default" || media == nil {
			if jwks := response.Value.Content.Get("application/jwk-set+json"); jwks == nil {
				continue
			} else {
				media = jwks
			}
		}
		answer, known := wireAnswers[id]
		if !known {
			c.t.Errorf("%s: the answer of %s has no wire type", at, id)
		}
		if answer != nil {
			c.schema(id+" "+status, media.Schema.Value, reflect.TypeOf(answer))
		}
	}
}

// schema compares the properties of a schema with the fields of a type, and goes on below both.
func (c *comparison) schema(at string, s *openapi3.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[json.RawMessage]() {
		return
	}
	switch t.Kind() {
	case reflect.Slice:
		if s.Items != nil {
			c.schema(at+"[]", s.Items.Value, t.Elem())
		}
	case reflect.Map:
		if more := s.AdditionalProperties.Schema; more != nil {
			c.schema(at+"{}", more.Value, t.Elem())
		}
	case reflect.Struct:
		c.object(at, s, t)
	}
}

func (c *comparison) object(at string, s *openapi3.Schema, t reflect.Type) {
	name, _, _ := strings.Cut(t.Name(), "[")
	properties := openapi3.Schemas{}
	for _, part := range append([]*openapi3.SchemaRef{{Value: s}}, s.AllOf...) {
		for member, value := range part.Value.Properties {
			if have := properties[member]; have == nil || part.Value == s {
				properties[member] = value
			}
		}
	}
	if len(properties) == 0 {
		return // the document only says that it is an object
	}
	c.seen[name] = true
	fields := members(t)
	for member, field := range fields {
		p := properties[member]
		switch {
		case p != nil && undocumented[name+"."+member] == "":
			c.schema(at+"."+member, p.Value, field)
		case p == nil && undocumented[name+"."+member] == "":
			c.t.Errorf("%s: the document lacks the member %s of wire.%s", at, member, name)
		}
	}
	for member := range properties {
		if _, known := fields[member]; !known {
			c.t.Errorf("%s: wire.%s lacks the member %s of the document", at, name, member)
		}
	}
}

// members are the JSON members or form parameters of a struct by name; those of embedded structs are its own.
func members(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Tag.Get("form")
		}
		if f.Anonymous && name == "" {
			for n, in := range members(f.Type) {
				out[n] = in
			}
			continue
		}
		out[name] = f.Type
	}
	return out
}

// inspectWire calls f for each node of the files of package wire, as ast.Inspect does.
func inspectWire(t *testing.T, f func(ast.Node) bool) {
	t.Helper()
	names, err := filepath.Glob("../wire/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, f)
	}
}

func exportedStructs(t *testing.T) (names []string) {
	t.Helper()
	inspectWire(t, func(n ast.Node) bool {
		if spec, is := n.(*ast.TypeSpec); is && spec.Name.IsExported() {
			if _, is := spec.Type.(*ast.StructType); is {
				names = append(names, spec.Name.Name)
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

// Readers of package wire have only its comments: each exported type and field
// has one, and no type has a method.
func TestWireTypesAreDocumented(t *testing.T) {
	t.Parallel()
	inspectWire(t, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			t.Errorf("wire.%s is behaviour", n.Name.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if s, is := spec.(*ast.TypeSpec); is && s.Name.IsExported() && !strings.HasPrefix(n.Doc.Text(), s.Name.Name+" ") {
					t.Errorf("the comment of wire.%s does not begin with its name", s.Name.Name)
				}
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if len(f.Names) > 0 && !strings.HasPrefix(f.Doc.Text(), f.Names[0].Name+" ") {
					t.Errorf("the comment of the field %s does not begin with its name", f.Names[0].Name)
				}
			}
		}
		return true
	})
}

// The table of operations has no row for a removed operation.
func TestWireTablesAreCurrent(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, item := range document(t).Paths.Map() {
		for _, op := range item.Operations() {
			ids[op.OperationID] = true
		}
	}
	for _, table := range []map[string]any{wireBodies, wireAnswers} {
		for id := range table {
			if !ids[id] {
				t.Errorf("%s %s is not an operation of the document", http.MethodPost, id)
			}
		}
	}
}
