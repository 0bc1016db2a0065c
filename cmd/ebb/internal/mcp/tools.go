package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/agenttext"
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
