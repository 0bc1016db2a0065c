package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web"
)

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc := document(t)
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: operationId %q is missing or repeated, or it has no summary or tag", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			if op.Responses.Default() == nil {
				t.Errorf("%s %s: no default answer", method, path)
			}
		}
	}
}

// The routes and the API document agree.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	params := regexp.MustCompile(`:([a-z_]+)`)
	var routes, documented []string
	for _, route := range r.mux.Routes() {
		routes = append(routes, route.Method+" "+params.ReplaceAllString(route.Path, "{$1}"))
	}
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	if !slices.Equal(routes, documented) {
		t.Errorf("routes:\n%s\ndocument:\n%s", strings.Join(routes, "\n"), strings.Join(documented, "\n"))
	}
}

// Every enumeration of the document equals that of the code.
func TestDocumentedSets(t *testing.T) {
	t.Parallel()
	doc := document(t)
	enum := func(schema string) []string {
		var out []string
		for _, v := range doc.Components.Schemas[schema].Value.Enum {
			out = append(out, v.(string))
		}
		return out
	}
	var codes []string
	for _, v := range doc.Components.Schemas["OAuthError"].Value.Properties["error"].Value.Enum {
		codes = append(codes, v.(string))
	}
	for _, k := range append(web.Kinds(), "unknown") {
		if line := web.Lookup(k); !slices.Contains(codes, line.OAuth) {
			t.Errorf("error code %s of kind %s is not documented", line.OAuth, k)
		}
	}
	for schema, want := range map[string][]string{
		"TaskState":    {string(broker.TaskOpen), string(broker.TaskPaused), string(broker.TaskClosed)},
		"RequestState": {string(broker.RequestPending), string(broker.RequestApproved), string(broker.RequestIssued), string(broker.RequestDenied), string(broker.RequestExpired), string(broker.RequestWithdrawn)},
		"LeaseState":   {string(broker.LeaseIntent), string(broker.LeaseLive), string(broker.LeaseRevoking), string(broker.LeaseRevoked), string(broker.LeaseExpired), string(broker.LeaseUnconfirmed)},
		"Proof":        {string(broker.ProofProbed), string(broker.ProofConfirmed), string(broker.ProofBound), string(broker.ProofExpired), string(broker.ProofNever), string(broker.ProofForced), string(broker.ProofNone)},
		"DenyCode":     {string(broker.TooBroad), string(broker.WrongResource), string(broker.NotNeeded), string(broker.UseExisting), string(broker.AskOwner), string(broker.NoAnswer), string(broker.ByPolicy), string(broker.Suspicious), string(broker.AskedEnough), string(broker.TaskHeld)},
		"Cause":        {string(broker.CauseCompleted), string(broker.CauseStopped), string(broker.CauseDeadline), string(broker.CauseHeartbeat), string(broker.CauseExited), string(broker.CauseMissedAttestation), string(broker.CauseSuspicious), string(broker.CauseParent), string(broker.CauseExpired), string(broker.CauseDenials), string(broker.CauseAsks)},
	} {
		if got := enum(schema); !slices.Equal(got, want) {
			t.Errorf("%s: documented %v, code has %v", schema, got, want)
		}
	}
}

// The comparison with real responses does find differences.
func TestComparisonFindsDifferences(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for name, c := range map[string]struct {
		method, path, contentType, body string
		status                          int
	}{
		"unknown member": {http.MethodPost, tokenURL, "application/json", `{"error":"invalid_request","x":1}`, 400},
		"unknown code":   {http.MethodPost, tokenURL, "application/json", `{"error":"odd"}`, 400},
		"problem+json":   {http.MethodPost, tokenURL, "application/problem+json", `{"error":"invalid_request"}`, 400},
		"wrong type":     {http.MethodGet, "/v1/tasks", "application/json", `{"items":{}}`, 200},
		"missing member": {http.MethodGet, "/v1/tasks", "application/json", `{"items":[{"id":"tsk_00000000000000000000000000000000"}]}`, 200},
	} {
		spy := &recorder{TB: t}
		a := &answer{status: c.status, header: http.Header{"Content-Type": {c.contentType}}, body: c.body}
		r.compare(spy, r.request(c.method, c.path, nil), a)
		if !spy.failed {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}

// recorder records that a test would have failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestServedDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a := r.do(t, r.request("GET", "/openapi.json", nil))
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	if err != nil || doc.OpenAPI != "3.1.0" || doc.Paths.Len() != document(t).Paths.Len() {
		t.Errorf("%v", err)
	}
	if !json.Valid([]byte(a.body)) || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q", a.header.Get("Content-Type"))
	}
}

// Probes and metrics need no credentials and reveal no internals.
func TestProbes(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	if a := r.do(t, r.request("GET", "/livez", nil)); a.status != 200 || a.text("status") != "live" {
		t.Errorf("livez: %d %s", a.status, a.body)
	}
	a := r.do(t, r.request("GET", "/readyz", nil))
	if a.status != 200 || a.text("status") != "ready" || !strings.Contains(a.body, `{"name":"live_store","state":"up"}`) || !strings.Contains(a.body, `{"name":"database","state":"up"}`) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	r.sandbox(t).access(t, canRead)
	a = r.do(t, r.request("GET", "/metrics", nil))
	for _, want := range []string{`ebb_http_requests_total{method="POST",route="/oauth2/token",status="2xx"}`, "ebb_token_requests_total"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(a.body, "tsk_") || strings.Contains(a.body, brokertest.Runner+`"`) {
		t.Error("metrics hold ids or names")
	}
}
