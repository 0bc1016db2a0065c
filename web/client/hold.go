package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// Hold keeps a control connection to ebb open until the task ends; then it
// returns nil. It reconnects whenever the connection breaks, and returns an
// error when ebb refuses it. When its process exits or ctx ends, and no other
// process of the sandbox connects within grace (60 s at most), ebb treats the
// sandbox as exited.
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

// passes reports whether a refusal is temporary. A sandbox that has hit a rate
// limit must not lose its task because it could not reconnect at once.
func passes(k wire.Kind) bool {
	return k == wire.KindUnavailable || k == wire.KindInternal || k == wire.KindTooMany
}

// holdOnce keeps one connection open. held reports that ebb accepted it, over
// that the task has ended.
func (s *Sandbox) holdOnce(ctx context.Context, who Enrolment, grace time.Duration) (held, over bool, err error) {
	form := formOf(wire.HoldForm{Grace: strconv.Itoa(int(grace / time.Second))})
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
		var line wire.HoldLine
		if len(lines.Bytes()) == 0 || json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // an empty line keeps the connection alive
		}
		held, over = held || line.Held, over || line.Why == wire.HoldTaskClosed
	}
	return held, over, lines.Err()
}

// Challenge gets the challenge that evidence of an attestor must answer. Enrol
// with the same key. attestor "" means the one that the task's runner
// registered. show is the document that the attestor's documentation names;
// most need none.
func (s *Sandbox) Challenge(ctx context.Context, taskID, attestor, show string) (wire.Challenge, error) {
	body, err := json.Marshal(wire.ChallengeBody{Attestor: attestor, TaskID: taskID, Evidence: show})
	if err != nil {
		return wire.Challenge{}, fmt.Errorf("client: %w", err)
	}
	var ans wire.Challenge
	if err := s.json(ctx, call{method: http.MethodPost, path: "/v1/challenge", kind: typeJSON, body: body, key: s.key}, &ans); err != nil {
		return wire.Challenge{}, err
	}
	if !word(ans.Nonce) {
		return wire.Challenge{}, badAnswer("contains no challenge", nil)
	}
	return ans, nil
}
