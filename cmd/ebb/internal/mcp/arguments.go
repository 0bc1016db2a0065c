package mcp

import (
	"bytes"
	"context"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/scopes"
	"ebb/web/client"
)

// checked is a set of arguments that says what is wrong with itself.
type checked interface{ check() error }

// arguments reads what a client sent: one object, no member twice, none that the tool does
// not have, each of its own type. Errors quote nothing of it.
func arguments[In any](raw []byte) (in In, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}") // a client may leave out what is empty
	}
	if len(raw) > maxMessage || raw[0] != '{' || json.Unmarshal(raw, &in, json.RejectUnknownMembers(true)) != nil {
		return in, wrong("The arguments are not those of this tool: a member is unknown, twice there, or of another type.")
	}
	if c, is := any(&in).(checked); is {
		err = c.check()
	}
	return in, err
}

// wrong is the client's mistake.
func wrong(said string) error { return broker.E(broker.Invalid, said, nil) }

type none struct{}

type requestArguments struct {
	Scope    string `json:"scope"`
	Reason   string `json:"reason"`
	Tool     string `json:"tool"`
	Resource string `json:"resource"`
	TTL      int    `json:"ttl_seconds"`
	Wait     int    `json:"wait_seconds"`

	set    scopes.Set
	reason agenttext.Untrusted
}

// Bounds, as the schemas say them.
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
		return wrong("scope is at most 2048 characters. Ask for less at a time.")
	case utf8.RuneCountInString(a.Tool) > maxTool, utf8.RuneCountInString(a.Resource) > maxResource:
		return wrong("tool is at most 64 characters, resource at most 2048.")
	case a.TTL < 0 || a.TTL > maxTTL:
		return wrong("ttl_seconds is 0 to 86400; leave it out for as long as policy says.")
	}
	if a.set, err = scopes.ParseSet(a.Scope); err != nil || a.set.Empty() {
		return broker.E(broker.InvalidScope, "scope is one or more provider:resource:action, separated by spaces, such as orders:eu/42:read.", nil)
	}
	return waiting(a.Wait)
}

// token is the question to ebb.
func (a *requestArguments) token() client.TokenRequest {
	return client.TokenRequest{Scope: a.set, Resource: a.Resource, TTL: time.Duration(a.TTL) * time.Second, Tool: a.Tool, Reason: a.reason.Raw(), Wait: true}
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

var requestName = regexp.MustCompile(`^req_[0-9a-f]{32}$`)

func (a *getArguments) check() error {
	if !requestName.MatchString(a.RequestID) {
		return wrong("request_id is a name that request_credential answered, such as req_ and 32 hexadecimal digits.")
	}
	return waiting(a.Wait)
}

type revokeArguments struct {
	LeaseID string `json:"lease_id"`
}

var leaseName = regexp.MustCompile(`^lse_[0-9a-f]{32}$`)

func (a *revokeArguments) check() error {
	if !leaseName.MatchString(a.LeaseID) {
		return wrong("lease_id is a name that request_credential or list_credentials answered, such as lse_ and 32 hexadecimal digits.")
	}
	return nil
}

// within is ctx for at most so many seconds.
func within(ctx context.Context, seconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
}
