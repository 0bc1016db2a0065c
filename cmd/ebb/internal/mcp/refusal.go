package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// refusal is the error that a client reads in place of a result.
type refusal struct {
	Error      string `json:"error"` // a kind of /problems
	Message    string `json:"message"`
	DoNext     string `json:"do_next"`
	RetryAfter int64  `json:"retry_after_seconds,omitempty"`
	WouldAllow string `json:"would_allow,omitempty"` // a scope that needs no approval
	Note       string `json:"note,omitempty"`        // note of the person who denied the request
}

// fault is an error of this server: ebb was not called, or its response cannot
// be used.
type fault struct {
	kind  wire.Kind
	said  string        // one sentence with the next step
	after time.Duration // how long to wait; 0 if waiting does not help
}

// Error implements error.
func (f *fault) Error() string { return string(f.kind) + ": " + f.said }

// refused is an error result for a model: the kind, ebb's own detail, and the
// next step. Of other errors it reveals nothing.
func refused(err error) *sdk.CallToolResult {
	r := refusalOf(err)
	text, merr := json.Marshal(r)
	if merr != nil {
		text = []byte(`{"error":"internal","message":"","do_next":"Try again later."}`)
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(agenttext.ASCIIJSON(text))}}}
}

func refusalOf(err error) refusal {
	kind, said, after, advice := wire.KindUnavailable, "ebb could not be reached. Nothing was issued.", time.Duration(0), (*wire.Advice)(nil)
	if p, is := errors.AsType[*client.Problem](err); is {
		kind, said, after, advice = p.Kind, p.Detail, p.RetryAfter, p.Advice
	} else if e, is := errors.AsType[*fault](err); is {
		kind, said, after = e.kind, e.said, e.after
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		said = "The call was canceled before ebb responded."
	}
	r := refusal{Error: out.Line(string(kind)), Message: out.Line(said), DoNext: doNext(kind), RetryAfter: int64((after + time.Second - 1) / time.Second)}
	if p, is := errors.AsType[*client.Problem](err); is && p.Kind == wire.KindInvalid {
		// ebb returns this kind also for a sandbox whose task has ended (RFC 8693
		// section 2.2.2).
		r.DoNext = "If the task has ended, stop: no credential is issued any more. Otherwise request another scope."
	}
	if advice != nil {
		r.WouldAllow, r.Note = out.Line(advice.WouldAllow), out.Line(advice.Note)
		if advice.WouldAllow != "" {
			r.DoNext = "Request the scope in would_allow instead, which needs no approval. Do not repeat this request."
		}
	}
	return r
}

// doNext returns the next step, which is never to repeat a refused request.
func doNext(k wire.Kind) string {
	switch k {
	case wire.KindInvalid:
		return "Correct the arguments according to the tool's schema."
	case wire.KindInvalidScope, wire.KindInvalidTarget:
		return "Request a scope within the task's ceiling, or a narrower one. The person who started the task knows the ceiling."
	case wire.KindNotFound:
		return "Use an ID that a tool of this server has returned."
	case wire.KindTooMany, wire.KindSlowDown, wire.KindUnavailable:
		return "Wait retry_after_seconds, or some seconds, and call once more."
	case wire.KindExpiredRequest:
		return "No approver decided in time. Request again only if it is still needed and an approver is available."
	case wire.KindUnauthenticated, wire.KindInvalidGrant, wire.KindConflict, "invalid_token":
		return "The task has ended, or the request is no longer open. Stop requesting, and tell the person who started the task."
	}
	return "Do not repeat this request. Continue without it, or tell the person who started the task."
}
