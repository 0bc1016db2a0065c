package ask

import (
	"errors"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/web/client"
)

// Paths of what a box may ask.
const (
	tokenPath    = "/token"
	provePath    = "/prove"
	listPath     = "/credentials"
	revokePath   = "/revoke"
	completePath = "/complete"
)

// Bounds of a question, and of an answer.
const (
	maxBody   = 64 << 10
	maxAnswer = 1 << 20
)

// typeLines is the Content-Type of an answer in lines.
const typeLines = "application/jsonl"

// question is client.TokenRequest on the wire.
type question struct {
	Scope      scopes.Set `json:"scope"`
	Resource   string     `json:"resource,omitempty"`
	TTLSeconds int64      `json:"ttl_seconds,omitempty"`
	Tool       string     `json:"tool,omitempty"`
	Delivery   string     `json:"delivery,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Wait       bool       `json:"wait,omitempty"`
	PublicKey  string     `json:"public_key,omitempty"`
	// Told: the answer is in lines when a person has to decide, and the first says so.
	Told bool `json:"told,omitempty"`
}

// line is one line of an answer that waits for a person: who decides, then what came of it.
type line struct {
	Pending *pending `json:"pending,omitempty"`
	Answer  *answer  `json:"answer,omitempty"`
	Refusal *refusal `json:"refusal,omitempty"`
}

// pending is client.Pending on the wire, without the code, which stays with the key.
type pending struct {
	RequestID        string `json:"request_id"`
	Page             string `json:"page"`
	ExpiresInSeconds int64  `json:"expires_in_seconds"`
}

type listQuestion struct{}

type listAnswer struct {
	Items []client.Given `json:"items"`
}

type revokeQuestion struct {
	LeaseID string `json:"lease_id"`
}

type revokeAnswer struct{}

type completeQuestion struct{}

// Completed is how the end of the task went.
type Completed struct {
	Revoked        int `json:"revoked"` // were live at that moment
	AlreadyExpired int `json:"already_expired"`
	Withdrawn      int `json:"withdrawn_pending"`
	Owed           int `json:"owed"` // at third parties, not yet known to be dead; ebb refuses them
}

// answer is client.Credential on the wire.
type answer struct {
	Token     string             `json:"access_token"`
	Type      string             `json:"token_type"`
	Format    string             `json:"issued_token_type,omitempty"`
	ExpiresAt time.Time          `json:"expires_at"`
	Scope     scopes.Set         `json:"scope"`
	Resource  string             `json:"resource,omitempty"`
	LeaseID   string             `json:"lease_id"`
	Class     provider.Class     `json:"revocability,omitempty"`
	Endpoint  *provider.Endpoint `json:"endpoint,omitempty"`
}

// proofQuestion asks for the proof of one request (RFC 9449).
type proofQuestion struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Token  string `json:"access_token"`
}

type proofAnswer struct {
	Proof string `json:"proof"`
}

// refusal is client.Problem on the wire, without what only the runner could use.
type refusal struct {
	Status            int            `json:"status"`
	Kind              broker.Kind    `json:"kind,omitempty"`
	Detail            string         `json:"detail,omitempty"`
	RetryAfterSeconds int64          `json:"retry_after_seconds,omitempty"`
	Advice            *broker.Advice `json:"advice,omitempty"`
}

// refusalOf keeps ebb's own words; of other failures the box learns that there was one.
func refusalOf(err error) refusal {
	p, is := errors.AsType[*client.Problem](err)
	if !is {
		return refusal{Status: 503, Kind: broker.Unavailable, Detail: "The runner could not ask ebb. Try again."}
	}
	return refusal{Status: p.Status, Kind: p.Kind, Detail: p.Detail, RetryAfterSeconds: int64((p.RetryAfter + time.Second - 1) / time.Second), Advice: p.Advice}
}

func (r refusal) problem() *client.Problem {
	return &client.Problem{Status: r.Status, Kind: r.Kind, Detail: r.Detail, RetryAfter: time.Duration(r.RetryAfterSeconds) * time.Second, Advice: r.Advice}
}
