package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// refusal is what a client reads instead of an answer.
type refusal struct {
	Error      string `json:"error"` // a kind of /problems
	Message    string `json:"message"`
	DoNext     string `json:"do_next"`
	RetryAfter int64  `json:"retry_after_seconds,omitempty"`
	WouldAllow string `json:"would_allow,omitempty"` // a scope that needs nobody
	Note       string `json:"note,omitempty"`        // of the person who denied it
}

// refused is an error for a model to read: a kind, ebb's own sentence, and what to do. Of
// errors that are not ebb's it says nothing.
func refused(err error) *sdk.CallToolResult {
	r := refusalOf(err)
	text, merr := json.Marshal(r)
	if merr != nil {
		text = []byte(`{"error":"internal","message":"","do_next":"Try again later."}`)
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(agenttext.ASCIIJSON(text))}}}
}

func refusalOf(err error) refusal {
	kind, said, after, advice := broker.Unavailable, "ebb could not be asked. Nothing was issued.", time.Duration(0), (*broker.Advice)(nil)
	if p, is := errors.AsType[*client.Problem](err); is {
		kind, said, after, advice = p.Kind, p.Detail, p.RetryAfter, p.Advice
	} else if e, is := errors.AsType[*broker.Error](err); is {
		kind, said, after = e.Kind, e.Public, e.RetryAfter
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		said = "The call ended before ebb had answered."
	}
	r := refusal{Error: out.Line(string(kind)), Message: out.Line(said), DoNext: doNext(kind), RetryAfter: int64((after + time.Second - 1) / time.Second)}
	if p, is := errors.AsType[*client.Problem](err); is && p.Kind == broker.Invalid {
		// ebb says so too of a sandbox whose task is over (RFC 8693 section 2.2.2).
		r.DoNext = "If the task is over, stop asking: nothing is given any more. Otherwise ask for something else."
	}
	if advice != nil {
		r.WouldAllow, r.Note = advice.WouldAllow.String(), out.Line(advice.Note)
		if !advice.WouldAllow.Empty() {
			r.DoNext = "Ask for would_allow instead, which needs nobody. Do not ask for the same again."
		}
	}
	return r
}

// doNext says what helps, which is never to repeat what was refused.
func doNext(k broker.Kind) string {
	switch k {
	case broker.Invalid:
		return "Correct the arguments as the schema of the tool says."
	case broker.InvalidScope, broker.InvalidTarget:
		return "Ask for a scope that this task may have, or for a narrower one. The person who started the task knows which."
	case broker.NotFound:
		return "Use a name that a tool here has answered."
	case broker.TooMany, broker.SlowDown, broker.Unavailable:
		return "Wait retry_after_seconds, or some seconds, and call once more."
	case broker.ExpiredRequest:
		return "Nobody decided in time. Ask again only if it is still needed and somebody is there."
	case broker.Unauthenticated, broker.InvalidGrant, broker.Conflict, "invalid_token":
		return "The task is over or the request has ended. Stop asking, and tell the person who started the task."
	}
	return "Do not ask for the same again. Go on without it, or tell the person who started the task."
}
