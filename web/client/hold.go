package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
)

// Hold keeps a control connection to ebb until the task ends: then it returns nil.
// It connects again whenever the connection breaks, and gives up when ebb refuses
// it. When the process that holds it dies, or ctx ends, and nobody of the sandbox is
// back within grace (at most a minute), ebb takes the sandbox for gone.
func (s *Sandbox) Hold(ctx context.Context, grace time.Duration) error {
	const first, most = 100 * time.Millisecond, 2 * time.Second
	wait := first
	for {
		who := s.who.Load()
		if who.TaskToken.Empty() && who.ClientID == "" {
			return errNotEnrolled
		}
		held, over, err := s.holdOnce(ctx, *who, grace)
		if over {
			return nil
		}
		if p, refused := errors.AsType[*Problem](err); refused && !passes(p.Kind) {
			return err
		}
		if held {
			wait = first
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("client: %w", ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, most)
	}
}

// passes says whether a refusal is one of the moment: a sandbox that has just asked
// for much must not lose its task because it could not connect again at once.
func passes(k broker.Kind) bool {
	return k == broker.Unavailable || k == broker.Internal || k == broker.TooMany
}

// holdOnce holds one connection. held: ebb took it; over: the task has ended.
func (s *Sandbox) holdOnce(ctx context.Context, who Enrolment, grace time.Duration) (held, over bool, err error) {
	form := url.Values{"grace_seconds": {strconv.Itoa(int(grace / time.Second))}}
	if who.TaskToken.Empty() {
		if err := s.authenticate(form, who.ClientID, s.key, ""); err != nil {
			return false, false, err
		}
	}
	c := formCall("/oauth2/hold", form, s.key)
	if !who.TaskToken.Empty() {
		c.scheme, c.token = "DPoP", who.TaskToken
	}
	resp, err := s.send(ctx, c)
	if err != nil {
		return false, false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxAnswer))
	for lines.Scan() {
		var line struct {
			Held bool   `json:"held"`
			Why  string `json:"why"`
		}
		if len(lines.Bytes()) == 0 || json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // a sign of life
		}
		held, over = held || line.Held, over || line.Why == "task_closed"
	}
	return held, over, lines.Err()
}

// Challenge is what evidence must answer.
type Challenge struct {
	Nonce     string
	Document  json.RawMessage // what else the attestor sends
	ExpiresAt time.Time
}

// Challenge asks for what evidence of an attestor must answer; enrol with the same
// key. attestor "" is the one the task's runner registered. show is what the
// attestor's page says, often nothing.
func (s *Sandbox) Challenge(ctx context.Context, taskID, attestor, show string) (Challenge, error) {
	body, err := json.Marshal(struct {
		Attestor string `json:"attestor,omitempty"`
		TaskID   string `json:"task_id,omitempty"`
		Evidence string `json:"evidence,omitempty"`
	}{attestor, taskID, show})
	if err != nil {
		return Challenge{}, fmt.Errorf("client: %w", err)
	}
	var ans struct {
		Nonce     string          `json:"nonce"`
		Document  json.RawMessage `json:"document"`
		ExpiresAt time.Time       `json:"expires_at"`
	}
	if err := s.json(ctx, call{method: http.MethodPost, path: "/v1/challenge", kind: typeJSON, body: body, key: s.key}, &ans); err != nil {
		return Challenge{}, err
	}
	if !word(ans.Nonce) {
		return Challenge{}, badAnswer("holds no challenge", nil)
	}
	return Challenge{Nonce: ans.Nonce, Document: ans.Document, ExpiresAt: ans.ExpiresAt}, nil
}
