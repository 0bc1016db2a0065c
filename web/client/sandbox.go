package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"ebb/attest/jose"
	"ebb/broker/provider"
)

// SandboxConfig says who the sandbox is. Key is required; the rest is known
// after Enrol, or given when the sandbox has enrolled before.
type SandboxConfig struct {
	Config
	Key       jose.Signer     // the sandbox's own key, which never leaves it
	ClientID  string          // "sbx_..."
	TaskToken provider.Secret // from an earlier Enrol with the same key
}

// Sandbox asks for credentials on behalf of one task.
type Sandbox struct {
	*peer
	key jose.Signer
	who atomic.Pointer[Enrolment]
}

// Enrolment is a sandbox that ebb knows.
type Enrolment struct {
	TaskToken provider.Secret // subject token of every request, bound to the key
	ExpiresAt time.Time
	TaskID    string
	ClientID  string // "sbx_..."
}

// NewSandbox makes a Sandbox; it does not call ebb yet.
func NewSandbox(c SandboxConfig) (*Sandbox, error) {
	p, err := newPeer(c.Config)
	if err != nil {
		return nil, err
	}
	if c.Key == nil {
		return nil, errors.New("client: a sandbox needs a key of its own; make one with NewKey")
	}
	if _, err := jose.AlgOf(c.Key.Public()); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s := &Sandbox{peer: p, key: c.Key}
	s.who.Store(&Enrolment{TaskToken: c.TaskToken, ClientID: c.ClientID})
	return s, nil
}

// Enrol redeems a ticket: afterwards Token works.
func (s *Sandbox) Enrol(ctx context.Context, ticket provider.Secret) (Enrolment, error) {
	body, err := ticketBody(ticket)
	if err != nil {
		return Enrolment{}, fmt.Errorf("client: %w", err)
	}
	return s.enrol(ctx, body)
}

// EnrolEvidence enrols with what the environment vouches for: a JWT of an
// identity provider, a signed document; "" when the connection is evidence enough.
// attestor "" is the one the runner registered.
func (s *Sandbox) EnrolEvidence(ctx context.Context, taskID, attestor, evidence string) (Enrolment, error) {
	body, err := json.Marshal(struct {
		TaskID   string `json:"task_id"`
		Evidence string `json:"evidence"`
		Attestor string `json:"attestor,omitempty"`
	}{taskID, evidence, attestor})
	if err != nil {
		return Enrolment{}, fmt.Errorf("client: %w", err)
	}
	return s.enrol(ctx, body)
}

func (s *Sandbox) enrol(ctx context.Context, body []byte) (Enrolment, error) {
	var ans struct {
		TaskToken string    `json:"task_token"`
		TokenType string    `json:"token_type"`
		ExpiresAt time.Time `json:"expires_at"`
		TaskID    string    `json:"task_id"`
		ClientID  string    `json:"client_id"`
	}
	err := s.json(ctx, call{method: http.MethodPost, path: "/v1/enroll", kind: typeJSON, body: body, key: s.key}, &ans)
	if err != nil {
		return Enrolment{}, err
	}
	if !word(ans.TaskToken) || !word(ans.ClientID) || !word(ans.TaskID) || ans.TokenType != "DPoP" {
		return Enrolment{}, badAnswer("holds no task token", nil)
	}
	e := Enrolment{TaskToken: provider.NewSecret(ans.TaskToken), ExpiresAt: ans.ExpiresAt, TaskID: ans.TaskID, ClientID: ans.ClientID}
	s.who.Store(&e)
	return e, nil
}

// Revoke ends one credential of this sandbox, or withdraws a request by its
// deferral code (RFC 7009). What is unknown or dead already is no error.
func (s *Sandbox) Revoke(ctx context.Context, token provider.Secret) error {
	form := url.Values{}
	setSecret(form, "token", token)
	return s.asSandbox(ctx, "/oauth2/revoke", form, nil)
}

var errNotEnrolled = errors.New("client: the sandbox is not enrolled: redeem a ticket with Enrol first")
