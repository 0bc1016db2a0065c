package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/web/wire"
)

// tools registers the tools. A tool that would always be refused is not
// offered.
func (s *Service) tools() {
	yes, no := true, false
	add(s, &sdk.Tool{
		Name: "request_credential", InputSchema: requestInput, OutputSchema: outcomeOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
		Description: "Request a short-lived credential for this task. Returns a placeholder, the page where a person decides, or the command by which a tool gets it; never a secret. The reason is shown to approvers and does not affect policy.",
	}, s.request)
	add(s, &sdk.Tool{
		Name: "get_request", InputSchema: getInput, OutputSchema: outcomeOutput,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		Description: "Get the outcome of a request that waits for an approval, by its request_id. wait_seconds waits for the decision.",
	}, s.get)
	add(s, &sdk.Tool{
		Name: "list_credentials", InputSchema: emptyInput, OutputSchema: listOutput,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		Description: "List the newest 100 credentials issued to this sandbox for this task, with ID and state, and the requests that wait for an approval.",
	}, s.list)
	add(s, &sdk.Tool{
		Name: "revoke_credential", InputSchema: revokeInput, OutputSchema: givenOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		Description: "Revoke one credential of this task, by its lease_id. Credentials of other tasks cannot be revoked.",
	}, s.revoke)
	if s.cfg.Complete == nil {
		return
	}
	add(s, &sdk.Tool{
		Name: "complete_task", InputSchema: emptyInput, OutputSchema: completeOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		Description: "Complete this task: every credential of it is revoked at once, no more are issued, and the runner stops this sandbox. It cannot be undone.",
	}, s.complete)
}

// add registers one tool. Only do acts on the arguments.
func add[In, Out any](s *Service, t *sdk.Tool, do func(context.Context, In) (Out, error)) {
	s.server.AddTool(t, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		defer s.calls.begin()()
		in, err := arguments[In](r.Params.Arguments)
		if err != nil {
			return refused(err), nil
		}
		out, err := do(ctx, in)
		if err != nil {
			return refused(err), nil
		}
		return result(out), nil
	})
}

// result returns v as structured content, and as the same text for clients that
// read only text. The text is ASCII, so that text of an agent cannot hide in
// it.
func result(v any) *sdk.CallToolResult {
	text, err := json.Marshal(v)
	if err != nil {
		return refused(err)
	}
	text = agenttext.ASCIIJSON(text)
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}
}

// calls counts the running tool calls, so that a stop can wait for them.
type calls struct {
	mu    sync.Mutex
	n     int
	ended time.Time // when the last call ended
}

func (c *calls) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n--
		c.ended = time.Now()
	}
}

// look is the polling interval while a call is running.
const look = 20 * time.Millisecond

// left returns the minimum time to wait until no call is running and the last
// one ended at least while ago.
func (c *calls) left(while time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.n > 0:
		return look
	case c.ended.IsZero():
		return 0
	}
	return while - time.Since(c.ended)
}

// Quiet waits until no call is running and the last one ended at least while
// ago, so that its response is sent, or until ctx ends.
func (s *Service) Quiet(ctx context.Context, while time.Duration) {
	for {
		wait := s.calls.left(while)
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// request implements request_credential. The same request of several calls and
// clients is sent to ebb once.
func (s *Service) request(ctx context.Context, a requestArguments) (outcome, error) {
	f, err := s.desk.ask(a.token())
	if err != nil {
		return outcome{}, err
	}
	told := false
	defer func() { s.desk.left(f, told) }()
	select {
	case <-f.done:
		told = ctx.Err() == nil
		return f.outcome, f.err
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-f.told:
	}
	told = true
	return f.await(ctx, a.Wait)
}

// get implements get_request. It only knows requests of this server: requests
// of other tasks are never looked up.
func (s *Service) get(ctx context.Context, a getArguments) (outcome, error) {
	f := s.desk.find(a.RequestID)
	if f == nil {
		return outcome{}, &fault{kind: wire.KindNotFound, said: "This server has no such request. Call request_credential again: the same arguments find the same request, and no second approval is requested."}
	}
	return f.await(ctx, a.Wait)
}

// await waits up to seconds for the outcome of a request that waits for an
// approval.
func (f *flight) await(ctx context.Context, seconds int) (outcome, error) {
	ctx, cancel := within(ctx, seconds)
	defer cancel()
	select {
	case <-f.done:
		return f.outcome, f.err
	default:
	}
	select {
	case <-f.done:
		return f.outcome, f.err
	case <-ctx.Done():
		return f.waits(), nil
	}
}

// Input of the tools. A test compares the schemas with the parser of arguments.
var (
	requestInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["scope"],"properties":{
		"scope":{"type":"string","minLength":1,"maxLength":2048,"description":"Requested access: one or more provider:resource:action of one provider, separated by spaces, such as orders:eu/42:read. Request no more than this step needs."},
		"reason":{"type":"string","maxLength":4000,"description":"Why it is needed. Approvers see it marked as text of the agent."},
		"tool":{"type":"string","maxLength":64,"description":"Name of the tool that will use the credential."},
		"resource":{"type":"string","maxLength":2048,"description":"URL of the API where it will be used, if the scope does not determine it (RFC 8707)."},
		"content":{"type":"string","maxLength":64,"description":"Id of what a refused request would have done, as its refusal names it (cnt_...). An approval is then for exactly this."},
		"ttl_seconds":{"type":"integer","minimum":0,"maximum":86400,"description":"Requested lifetime; policy may shorten it. 0: the lifetime that policy sets."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for an approval. 0: return at once with the state pending."}}}`)
	getInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["request_id"],"properties":{
		"request_id":{"type":"string","pattern":"^req_[0-9a-f]{32}$","description":"The request_id that request_credential returned."},
		"wait_seconds":{"type":"integer","minimum":0,"maximum":50,"description":"How long this call may wait for the decision."}}}`)
	revokeInput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id"],"properties":{
		"lease_id":{"type":"string","pattern":"^lse_[0-9a-f]{32}$","description":"The lease_id that request_credential or list_credentials returned."}}}`)
	emptyInput = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)
)

const givenProperties = `"lease_id":{"type":"string"},"scope":{"type":"string"},"resource":{"type":"string"},"tool":{"type":"string"},
	"state":{"type":"string","enum":["intent","live","revoking","revoked","expired","unconfirmed"]},
	"issued_at":{"type":"string","format":"date-time"},"expires_at":{"type":"string","format":"date-time"},"revoked_at":{"type":"string","format":"date-time"}`

// Output of the tools. It never contains a credential.
var (
	outcomeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["state","scope","do_next"],"properties":{
		"state":{"type":"string","enum":["issued","pending","by_command"]},
		"scope":{"type":"string","description":"The granted scope, which may be less than requested; while pending, the requested one."},
		"do_next":{"type":"string"},
		"request_id":{"type":"string"},
		"request_url":{"type":"string","description":"Page where the request is decided; absent if ebb is on loopback, see do_next."},
		"expires_in_seconds":{"type":"integer","description":"Without a decision by then the request is denied."},
		"lease_id":{"type":"string"},
		"placeholder":{"type":"string","description":"Stands for the credential; only ebb's egress proxy can replace it, and only for this sandbox."},
		"resource":{"type":"string"},
		"endpoint":{"type":"object","additionalProperties":false,"required":["protocol","host","database"],"description":"Database where the placeholder is the password.","properties":{
			"protocol":{"type":"string"},"host":{"type":"string","description":"Host and port."},"database":{"type":"string"}}},
		"expires_at":{"type":"string","format":"date-time"},
		"command":{"type":"array","items":{"type":"string"},"description":"Command by which a tool in this sandbox gets the credential without showing it here."}}}`)
	givenOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}`)
	listOutput  = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["credentials","pending"],"properties":{
		"credentials":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["lease_id","scope","state","issued_at","expires_at"],"properties":{` + givenProperties + `}}},
		"pending":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["request_id","scope"],"properties":{
			"request_id":{"type":"string"},"request_url":{"type":"string"},"scope":{"type":"string"}}}}}}`)
	completeOutput = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["revoked","already_expired","withdrawn_pending","pending_revocations"],"properties":{
		"revoked":{"type":"integer"},"already_expired":{"type":"integer"},"withdrawn_pending":{"type":"integer"},
		"pending_revocations":{"type":"integer","description":"Credentials whose revocation at a third party is pending; ebb refuses them."}}}`)
)
