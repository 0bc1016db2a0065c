package mcp

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// checked are arguments that can check themselves.
type checked interface{ check() error }

// arguments parses the arguments of a tool call: one object without duplicate
// or unknown members. Errors quote nothing of the input.
func arguments[In any](raw []byte) (in In, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}") // a client may omit empty arguments
	}
	if len(raw) > maxMessage || raw[0] != '{' || json.Unmarshal(raw, &in, json.RejectUnknownMembers(true)) != nil {
		return in, wrong("The arguments do not match the tool's schema: a member is unknown, duplicate, or of the wrong type.")
	}
	if c, is := any(&in).(checked); is {
		err = c.check()
	}
	return in, err
}

// wrong is an error of the client.
func wrong(said string) error { return &fault{kind: wire.KindInvalid, said: said} }

type none struct{}

type requestArguments struct {
	Scope    string `json:"scope"`
	Reason   string `json:"reason"`
	Tool     string `json:"tool"`
	Resource string `json:"resource"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl_seconds"`
	Wait     int    `json:"wait_seconds"`

	set    scopes.Set
	reason agenttext.Untrusted
}

// Bounds, the same as in the schemas.
const (
	maxScope, maxReason, maxTool, maxResource = 2048, 4000, 64, 2048 // characters
	maxTTL, maxWait                           = 86400, 50            // seconds
)

func (a *requestArguments) check() error {
	var err error
	if a.reason, err = agenttext.New(a.Reason, maxReason); err != nil {
		return wrong("reason is at most 4000 characters of text.")
	}
	a.Reason = ""
	switch {
	case utf8.RuneCountInString(a.Scope) > maxScope:
		return wrong("scope is at most 2048 characters. Request fewer scopes at a time.")
	case utf8.RuneCountInString(a.Tool) > maxTool, utf8.RuneCountInString(a.Resource) > maxResource, utf8.RuneCountInString(a.Content) > maxTool:
		return wrong("tool and content are at most 64 characters, resource at most 2048.")
	case a.TTL < 0 || a.TTL > maxTTL:
		return wrong("ttl_seconds is 0 to 86400; omit it for the lifetime that policy sets.")
	}
	if a.set, err = scopes.ParseSet(a.Scope); err != nil || a.set.Empty() {
		return &fault{kind: wire.KindInvalidScope, said: "scope is one or more provider:resource:action, separated by spaces, such as orders:eu/42:read."}
	}
	return waiting(a.Wait)
}

// token returns the token request to ebb.
func (a *requestArguments) token() client.TokenRequest {
	return client.TokenRequest{Scope: a.set.String(), Resource: a.Resource, TTL: time.Duration(a.TTL) * time.Second, Tool: a.Tool, Content: a.Content, Reason: a.reason.Raw(), Wait: true}
}

func waiting(seconds int) error {
	if seconds < 0 || seconds > maxWait {
		return wrong("wait_seconds is 0 to 50.")
	}
	return nil
}

type getArguments struct {
	RequestID string `json:"request_id"`
	Wait      int    `json:"wait_seconds"`
}

var requestName = lazyregexp.New(`^req_[0-9a-f]{32}$`)

func (a *getArguments) check() error {
	if !requestName.MatchString(a.RequestID) {
		return wrong("request_id must be one that request_credential returned: req_ and 32 hexadecimal digits.")
	}
	return waiting(a.Wait)
}

type revokeArguments struct {
	LeaseID string `json:"lease_id"`
}

var leaseName = lazyregexp.New(`^lse_[0-9a-f]{32}$`)

func (a *revokeArguments) check() error {
	if !leaseName.MatchString(a.LeaseID) {
		return wrong("lease_id must be one that request_credential or list_credentials returned: lse_ and 32 hexadecimal digits.")
	}
	return nil
}

// within returns ctx with a timeout.
func within(ctx context.Context, seconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
}
