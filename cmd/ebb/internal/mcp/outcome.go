package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// States of an outcome.
const (
	issued    = "issued"
	waits     = "pending"
	byCommand = "by_command"
)

// outcome is the outcome of a request. It has no member for a secret.
type outcome struct {
	State       string         `json:"state"`
	Scope       string         `json:"scope"`
	DoNext      string         `json:"do_next"`
	RequestID   string         `json:"request_id,omitempty"`
	RequestURL  string         `json:"request_url,omitempty"`
	ExpiresIn   int64          `json:"expires_in_seconds,omitempty"`
	LeaseID     string         `json:"lease_id,omitempty"`
	Placeholder string         `json:"placeholder,omitempty"`
	Resource    string         `json:"resource,omitempty"`
	ExpiresAt   *time.Time     `json:"expires_at,omitempty"`
	Command     []string       `json:"command,omitempty"`
	Endpoint    *wire.Endpoint `json:"endpoint,omitempty"`
}

// awsFormat is the issued_token_type of an AWS session.
const awsFormat = "urn:ebb:token-type:aws"

// outcomeOf returns a placeholder, or the command by which a tool gets the
// credential. A credential whose type is placeholder but whose value is none is
// not returned.
func outcomeOf(c client.Credential, q question, delivery string) outcome {
	o := outcome{Scope: out.Line(c.Scope), Resource: out.Line(c.Resource)}
	if name, is := placeholder(c); is {
		at := c.ExpiresAt.UTC()
		o.State, o.LeaseID, o.Placeholder, o.ExpiresAt = issued, c.LeaseID, name, &at
		if delivery == wire.DeliveryToken {
			o.DoNext = "This credential is never returned: only ebb's egress proxy adds it to requests from a sandbox of its runner. In such a sandbox put the placeholder where the credential belongs."
			return o
		}
		if c.Endpoint != nil {
			o.Endpoint = &wire.Endpoint{Protocol: out.Line(c.Endpoint.Protocol), Host: out.Line(c.Endpoint.Host), Database: out.Line(c.Endpoint.Database)}
			o.DoNext = "Connect to the database of endpoint with the placeholder as the password, such as PGPASSWORD, through the proxy of this sandbox or by a host name that leads to it. It works nowhere else."
			return o
		}
		o.DoNext = "Put the placeholder where the credential belongs, such as the header Authorization: Bearer, and send the request through the proxy of this sandbox. It works nowhere else."
		return o
	}
	o.State = byCommand
	o.Command = []string{"ebb", "token", "--scope", o.Scope}
	if c.Format == awsFormat {
		o.Command = []string{"ebb", "credential", "aws", "--scope", o.Scope}
	}
	if q.tool != "" {
		o.Command = append(o.Command, "--tool", q.tool)
	}
	if delivery != "" {
		o.Command = append(o.Command, "--delivery", delivery)
	}
	o.DoNext = "The credential is granted but not shown here. Let the tool that needs it get it in this sandbox: run the command, or configure `ebb credential git|docker|kubectl|aws` as its helper. An approval given once is reused."
	if c.Type == "DPoP" {
		o.DoNext += " It is bound to the sandbox's key: add --use \"METHOD URL\" for the header lines of one request."
	}
	return o
}

// placeholder returns the token if it is a valid placeholder for a lease of
// ebb.
func placeholder(c client.Credential) (string, bool) {
	if c.Format != provider.PlaceholderFormat {
		return "", false
	}
	name := c.Token.Reveal()
	lease, is := strings.CutPrefix(name, egress.Prefix)
	return name, is && leaseName.MatchString(lease)
}

// waits is the outcome of a request that waits for an approval.
func (f *flight) waits() outcome {
	return outcome{
		State: waits, Scope: f.asked, RequestID: out.Line(f.pending.RequestID), RequestURL: out.Line(f.pending.Page),
		ExpiresIn: max(int64(time.Until(f.until)/time.Second), 0),
		DoNext:    decides(f.pending),
	}
}

// decides names the place where the request is decided.
func decides(p client.Pending) string {
	where := "at request_url"
	if p.Page == "" {
		where = "on ebb's machine: `ebb console` opens the page, or `ebb requests show " + out.Line(p.RequestID) + "` prints it"
	}
	return "A person has to decide " + where + ". Tell them, and poll with get_request. Repeating or rewording the request changes nothing."
}

// given is a credential issued to this sandbox, without the secret.
type given struct {
	LeaseID   string    `json:"lease_id"`
	Scope     string    `json:"scope"`
	Resource  string    `json:"resource,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	State     string    `json:"state"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

type listed struct {
	Credentials []given `json:"credentials"`
	Pending     []open  `json:"pending"`
}

// open is a request that waits for an approval.
type open struct {
	RequestID  string `json:"request_id"`
	RequestURL string `json:"request_url,omitempty"`
	Scope      string `json:"scope"`
}

func givenOf(g wire.OwnCredential) given {
	return given{
		LeaseID: out.Line(g.LeaseID), Scope: out.Line(g.Scope), Resource: out.Line(g.Resource), Tool: out.Line(g.Tool), State: out.Line(string(g.State)),
		IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, RevokedAt: g.RevokedAt,
	}
}

// list implements list_credentials. ebb returns only credentials of the
// authenticated sandbox.
func (s *Service) list(ctx context.Context, _ none) (listed, error) {
	all, err := s.cfg.Sandbox.Credentials(ctx)
	if err != nil {
		return listed{}, err
	}
	l := listed{Credentials: make([]given, len(all)), Pending: []open{}}
	for i, g := range all {
		l.Credentials[i] = givenOf(g)
	}
	for _, f := range s.desk.waiting() {
		w := f.waits()
		l.Pending = append(l.Pending, open{out.Line(w.RequestID), out.Line(w.RequestURL), out.Line(w.Scope)})
	}
	return l, nil
}

// revoke implements revoke_credential. ebb revokes only credentials of this
// sandbox, and returns the same response in either case. So the state is looked
// up in the sandbox's list.
func (s *Service) revoke(ctx context.Context, a revokeArguments) (given, error) {
	if err := s.cfg.Sandbox.RevokeLease(ctx, a.LeaseID); err != nil {
		return given{}, err
	}
	all, err := s.cfg.Sandbox.Credentials(ctx)
	if err != nil {
		return given{}, err
	}
	for _, g := range all {
		if g.LeaseID == a.LeaseID {
			return givenOf(g), nil
		}
	}
	return given{}, &fault{kind: wire.KindNotFound, said: "This sandbox has no such credential among its newest 100. If it is an older one of this sandbox it was revoked; no other credential was changed. See list_credentials."}
}

// complete implements complete_task.
func (s *Service) complete(ctx context.Context, _ none) (Completed, error) {
	return s.cfg.Complete(context.WithoutCancel(ctx))
}

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
