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

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// SandboxConfig identifies the sandbox. Key is required. The rest is set by
// Enrol, or given when the sandbox has enrolled before.
type SandboxConfig struct {
	Config
	Key       jose.Signer   // the sandbox's own key, which never leaves it
	ClientID  string        // "sbx_..."
	TaskToken secret.Secret // from an earlier Enrol with the same key
}

// Sandbox requests credentials for one task.
type Sandbox struct {
	*peer
	key jose.Signer
	who atomic.Pointer[Enrolment]
}

// Enrolment is the identity of an enrolled sandbox.
type Enrolment struct {
	TaskToken secret.Secret // subject token of every request, bound to the key
	ExpiresAt time.Time
	TaskID    string
	ClientID  string // "sbx_..."
}

// NewSandbox returns a Sandbox. It does not call ebb.
func NewSandbox(c SandboxConfig) (*Sandbox, error) {
	p, err := newPeer(c.Config)
	if err != nil {
		return nil, err
	}
	if c.Key == nil {
		return nil, errors.New("client: Key is required; generate one with NewKey")
	}
	if _, err := jose.AlgOf(c.Key.Public()); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s := &Sandbox{peer: p, key: c.Key}
	s.who.Store(&Enrolment{TaskToken: c.TaskToken, ClientID: c.ClientID})
	return s, nil
}

// Enrol redeems a ticket. Token can be called afterwards.
func (s *Sandbox) Enrol(ctx context.Context, ticket secret.Secret) (Enrolment, error) {
	body, err := ticketBody(ticket)
	if err != nil {
		return Enrolment{}, fmt.Errorf("client: %w", err)
	}
	return s.enrol(ctx, body)
}

// EnrolEvidence enrols with evidence of the environment, such as a JWT of an
// identity provider or a signed document. evidence is "" when the connection
// itself is the evidence. attestor "" means the one that the runner registered.
func (s *Sandbox) EnrolEvidence(ctx context.Context, taskID, attestor, evidence string) (Enrolment, error) {
	body, err := json.Marshal(wire.EnrolmentBody{TaskID: taskID, Evidence: evidence, Attestor: attestor})
	if err != nil {
		return Enrolment{}, fmt.Errorf("client: %w", err)
	}
	return s.enrol(ctx, body)
}

func (s *Sandbox) enrol(ctx context.Context, body []byte) (Enrolment, error) {
	var ans wire.Enrolled
	err := s.json(ctx, call{method: http.MethodPost, path: "/v1/enroll", kind: typeJSON, body: body, key: s.key}, &ans)
	if err != nil {
		return Enrolment{}, err
	}
	if !word(ans.TaskToken) || !word(ans.ClientID) || !word(ans.TaskID) || ans.TokenType != "DPoP" {
		return Enrolment{}, badAnswer("contains no task token", nil)
	}
	e := Enrolment{TaskToken: secret.New(ans.TaskToken), ExpiresAt: ans.ExpiresAt, TaskID: ans.TaskID, ClientID: ans.ClientID}
	s.who.Store(&e)
	return e, nil
}

// Revoke revokes one credential of this sandbox, or withdraws a request by its
// deferral code (RFC 7009). A token that is unknown or already revoked is not
// an error.
func (s *Sandbox) Revoke(ctx context.Context, token secret.Secret) error {
	form := url.Values{}
	setSecret(form, "token", token)
	return s.asSandbox(ctx, "/oauth2/revoke", form, nil)
}

var errNotEnrolled = errors.New("client: the sandbox is not enrolled: redeem a ticket with Enrol first")
