package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ebb/broker/agenttext"
)

// tools registers the tools. There is none that only refuses.
func (s *Service) tools() {
	yes, no := true, false
	add(s, &sdk.Tool{
		Name: "request_credential", InputSchema: requestInput, OutputSchema: outcomeOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
		Description: "Ask for a short-lived credential for this task. Answers with a placeholder, with the address where a person decides, or with the command that a tool gets it by; never with a secret. The reason is shown to people and decides nothing.",
	}, s.request)
	add(s, &sdk.Tool{
		Name: "get_request", InputSchema: getInput, OutputSchema: outcomeOutput,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		Description: "What came of a request that waits for a person, by its request_id. wait_seconds waits for the answer.",
	}, s.get)
	add(s, &sdk.Tool{
		Name: "list_credentials", InputSchema: emptyInput, OutputSchema: listOutput,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		Description: "The newest 100 credentials that this sandbox was given for this task, by name and state, and the requests that wait.",
	}, s.list)
	add(s, &sdk.Tool{
		Name: "revoke_credential", InputSchema: revokeInput, OutputSchema: givenOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		Description: "End one credential of this task, by its lease_id. Nothing of other tasks can be named.",
	}, s.revoke)
	if s.cfg.Complete == nil {
		return
	}
	add(s, &sdk.Tool{
		Name: "complete_task", InputSchema: emptyInput, OutputSchema: completeOutput,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		Description: "End this task: every credential of it is dead at once, nothing is given any more, and the runner ends this box. It cannot be undone.",
	}, s.complete)
}

// add registers one tool. Whatever its arguments, nothing but do acts on them.
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

// result is v as structured content, and as the same text for clients that read none. It is
// ASCII: what an agent wrote cannot hide in it.
func result(v any) *sdk.CallToolResult {
	text, err := json.Marshal(v)
	if err != nil {
		return refused(err)
	}
	text = agenttext.ASCIIJSON(text)
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}
}
