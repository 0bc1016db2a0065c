package ask

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Paths of the requests.
const (
	tokenPath    = "/token"
	provePath    = "/prove"
	listPath     = "/credentials"
	revokePath   = "/revoke"
	completePath = "/complete"
)

// Bounds of a request body and of a response, in bytes.
const (
	maxBody   = 64 << 10
	maxAnswer = 1 << 20
)

// typeLines is the Content-Type of a response in JSON lines.
const typeLines = "application/jsonl"

// question is client.TokenRequest on the wire.
type question struct {
	Scope      string `json:"scope"`
	Resource   string `json:"resource,omitempty"`
	TTLSeconds int64  `json:"ttl_seconds,omitempty"`
	Tool       string `json:"tool,omitempty"`
	Delivery   string `json:"delivery,omitempty"`
	Content    string `json:"content,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Wait       bool   `json:"wait,omitempty"`
	PublicKey  string `json:"public_key,omitempty"`
	// Told requests a response in JSON lines if the request waits for an
	// approval; the first line then is pending.
	Told bool `json:"told,omitempty"`
}

// line is one line of a response that waits for an approval: first the pending
// request, then its outcome.
type line struct {
	Pending *pending `json:"pending,omitempty"`
	Answer  *answer  `json:"answer,omitempty"`
	Refusal *refusal `json:"refusal,omitempty"`
}

// pending is client.Pending on the wire, without the deferral code, which stays
// with the runner.
type pending struct {
	RequestID        string   `json:"request_id"`
	Page             string   `json:"page"`
	ExpiresInSeconds int64    `json:"expires_in_seconds"`
	Groups           []string `json:"groups,omitempty"`
}

type listQuestion struct{}

type listAnswer struct {
	Items []wire.OwnCredential `json:"items"`
}

type revokeQuestion struct {
	LeaseID string `json:"lease_id"`
}

type revokeAnswer struct{}

type completeQuestion struct{}

// Completed is the result of completing the task.
type Completed struct {
	Revoked            int `json:"revoked"` // live when the task was completed
	AlreadyExpired     int `json:"already_expired"`
	Withdrawn          int `json:"withdrawn_pending"`
	PendingRevocations int `json:"pending_revocations"` // pending revocations at third parties; ebb refuses these credentials
}

// answer is client.Credential on the wire.
type answer struct {
	Token     string         `json:"access_token"`
	Type      string         `json:"token_type"`
	Format    string         `json:"issued_token_type,omitempty"`
	ExpiresAt time.Time      `json:"expires_at"`
	Scope     string         `json:"scope"`
	Resource  string         `json:"resource,omitempty"`
	LeaseID   string         `json:"lease_id"`
	Class     wire.Class     `json:"revocability,omitempty"`
	Endpoint  *wire.Endpoint `json:"endpoint,omitempty"`
}

// proofQuestion requests a DPoP proof for one request (RFC 9449).
type proofQuestion struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Token  string `json:"access_token"`
}

type proofAnswer struct {
	Proof string `json:"proof"`
}

// refusal is client.Problem on the wire, without the members that only the
// runner could use.
type refusal struct {
	Status            int          `json:"status"`
	Kind              wire.Kind    `json:"kind,omitempty"`
	Detail            string       `json:"detail,omitempty"`
	RetryAfterSeconds int64        `json:"retry_after_seconds,omitempty"`
	Advice            *wire.Advice `json:"advice,omitempty"`
	Next              []string     `json:"next,omitempty"`
}

// refusalOf passes ebb's own problem on. Of any other error the sandbox learns
// only that the request failed.
func refusalOf(err error) refusal {
	p, is := errors.AsType[*client.Problem](err)
	if !is {
		return refusal{Status: 503, Kind: wire.KindUnavailable, Detail: "The runner could not reach ebb. Try again."}
	}
	return refusal{Status: p.Status, Kind: p.Kind, Detail: p.Detail, RetryAfterSeconds: int64((p.RetryAfter + time.Second - 1) / time.Second), Advice: p.Advice, Next: p.Next}
}

func (r refusal) problem() *client.Problem {
	return &client.Problem{Status: r.Status, Kind: r.Kind, Detail: r.Detail, RetryAfter: time.Duration(r.RetryAfterSeconds) * time.Second, Advice: r.Advice, Next: r.Next}
}

// flow writes the response to a token request: one document, or JSON lines once
// the client was told that the request waits for an approval.
type flow struct {
	w     http.ResponseWriter
	lines bool
}

// wait tells the client which request waits for an approval.
func (f *flow) wait(p client.Pending) {
	if !f.lines {
		f.w.Header().Set("Content-Type", typeLines)
		f.lines = true
	}
	f.say(line{Pending: &pending{RequestID: p.RequestID, Page: p.Page, ExpiresInSeconds: int64(p.ExpiresIn / time.Second), Groups: p.Groups}})
}

func (f *flow) reply(status int, body any) {
	if !f.lines {
		reply(f.w, status, body)
		return
	}
	switch body := body.(type) {
	case answer:
		f.say(line{Answer: &body})
	case refusal:
		f.say(line{Refusal: &body})
	}
}

func (f *flow) say(l line) {
	rc := http.NewResponseController(f.w)
	_ = rc.SetWriteDeadline(time.Now().Add(replyTime)) // every connection of the server has a write deadline
	_ = json.NewEncoder(f.w).Encode(l)                 // the client may be gone
	_ = rc.Flush()
}
