package api

import (
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/wire"
)

// askChallenge returns a challenge for evidence, bound to the key of the DPoP
// proof.
func (ca *clientAuth) askChallenge(c echo.Context, p broker.Possession, body wire.ChallengeBody) (wire.Challenge, error) {
	if body.Attestor == "" && body.TaskID == "" {
		return wire.Challenge{}, malformed("Name the attestor, or the task with task_id.")
	}
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(body.Evidence), Channel: ca.channel(c.Request())}
	out, err := ca.b.Challenge(c.Request().Context(), body.TaskID, ev, p)
	if err != nil {
		return wire.Challenge{}, err
	}
	return wire.Challenge{Nonce: out.Nonce, Document: out.Document, ExpiresAt: out.ExpiresAt}, nil
}
