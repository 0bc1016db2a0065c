package enroll

import (
	"errors"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// TaskTokenType is the typ of task tokens. No other token of ebb has it, and task
// tokens have no other audience than TaskAudience: neither passes for the other
// (RFC 8725, section 3.12).
const TaskTokenType = "ebb-task+jwt"

// TaskAudience is the aud of task tokens of an issuer.
func TaskAudience(issuer string) string { return issuer + "/task" }

// TaskToken is what a task token says. All members but ID are required.
type TaskToken struct {
	Issuer    string // iss, ebb's own
	SandboxID string // sub
	TaskID    string // task_id
	JKT       string // cnf.jkt: RFC 7638 thumbprint of the sandbox's key
	IssuedAt  time.Time
	ExpiresAt time.Time // never after the task's deadline
	ID        string    // jti
}

type confirmation struct {
	JKT string `json:"jkt"`
}

type taskClaims struct {
	Issuer   string       `json:"iss"`
	Subject  string       `json:"sub"`
	Audience string       `json:"aud"`
	TaskID   string       `json:"task_id"`
	Cnf      confirmation `json:"cnf"`
	IssuedAt int64        `json:"iat"`
	Expiry   int64        `json:"exp"`
	ID       string       `json:"jti,omitempty"`
}

// IssueTaskToken signs a task token with ebb's key kid.
func IssueTaskToken(s jose.Signer, kid string, t TaskToken) (string, error) {
	if t.Issuer == "" || t.SandboxID == "" || t.TaskID == "" || t.JKT == "" {
		return "", errors.New("attest/enroll: a task token needs issuer, sandbox, task and key")
	}
	if t.IssuedAt.IsZero() || t.ExpiresAt.Unix() <= t.IssuedAt.Unix() {
		return "", errors.New("attest/enroll: a task token must expire after it is issued")
	}
	return jose.Sign(s, jose.SignHeader{Type: TaskTokenType, KID: kid}, taskClaims{
		Issuer: t.Issuer, Subject: t.SandboxID, Audience: TaskAudience(t.Issuer), TaskID: t.TaskID,
		Cnf: confirmation{t.JKT}, IssuedAt: t.IssuedAt.Unix(), Expiry: t.ExpiresAt.Unix(), ID: t.ID,
	})
}
