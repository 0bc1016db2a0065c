package api

import (
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/attest"
	"ebb/broker"
)

// challengeRequest is what a sandbox shows to be challenged.
type challengeRequest struct {
	Attestor string `json:"attestor"` // "" = the one the task's runner registered
	TaskID   string `json:"task_id"`  // needed without attestor
	Evidence string `json:"evidence"` // what the attestor's page says, often nothing
}

type challengeAnswer struct {
	Nonce     string          `json:"nonce"`
	Document  json.RawMessage `json:"document,omitempty"` // what else the attestor sends
	ExpiresAt time.Time       `json:"expires_at"`
}

// askChallenge makes what evidence must answer, for the key of the proof.
func (a *API) askChallenge(c echo.Context, p broker.Possession, body challengeRequest) (challengeAnswer, error) {
	if body.Attestor == "" && body.TaskID == "" {
		return challengeAnswer{}, malformed("Name the attestor, or the task with task_id.")
	}
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(body.Evidence), Channel: a.channel(c.Request())}
	out, err := a.b.Challenge(c.Request().Context(), body.TaskID, ev, p)
	if err != nil {
		return challengeAnswer{}, err
	}
	return challengeAnswer{Nonce: out.Nonce, Document: out.Document, ExpiresAt: out.ExpiresAt}, nil
}
