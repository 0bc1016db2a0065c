package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Config configures the only enroll attestor of an ebb.
type Config struct {
	// Name of the instance. Required.
	Name string
	// Issuer is ebb's own issuer, byte-identical to the iss of its tokens. Required.
	Issuer string
	// Tickets redeems enrolment tickets. Required.
	Tickets Tickets
	// Keys returns ebb's own public keys. Required.
	Keys jose.KeySource
	// MaxLifetime is the maximum lifetime of a task token, which is that of the longest
	// task. Default 24 h.
	MaxLifetime time.Duration
	// Leeway is the accepted difference between the clocks of replicas. Default 0; at most 1
	// m.
	Leeway time.Duration
	// Now is the clock, nil = time.Now.
	Now func() time.Time
}

// Decode decodes the kind's part of the configuration file. The kind has no settings, so
// only an absent or empty object is accepted.
func Decode(raw json.RawMessage) (Config, error) {
	if len(raw) == 0 {
		return Config{}, nil
	}
	if _, err := attest.Decode[struct{}]("enroll", raw); err != nil {
		return Config{}, fmt.Errorf("%w; the attestor enroll has no settings", err)
	}
	return Config{}, nil
}

// Attestor judges tickets and task tokens.
type Attestor struct {
	cfg     Config
	profile jose.Profile
}

var _ attest.Attestor = (*Attestor)(nil)

// New returns an Attestor.
func New(c Config) (*Attestor, error) {
	switch {
	case c.Name == "" || c.Issuer == "":
		return nil, errors.New("attest/enroll: name and issuer are required")
	case c.Tickets == nil || c.Keys == nil:
		return nil, errors.New("attest/enroll: tickets and keys are required")
	case c.Leeway < 0 || c.Leeway > time.Minute || c.MaxLifetime < 0:
		return nil, errors.New("attest/enroll: leeway is not between 0 and 1m, or max lifetime is negative")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Attestor{cfg: c, profile: jose.Profile{
		Types: []string{TaskTokenType}, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.RS256},
		Issuer: c.Issuer, Audience: taskAudience(c.Issuer),
		MaxLifetime: c.MaxLifetime, Leeway: c.Leeway,
	}}, nil
}

// Attest implements attest.Attestor. It consumes a ticket.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/enroll: %w", err)
	}
	if len(e.Document) > attest.MaxDocument {
		return attest.Identity{}, attest.Reject(attest.ReasonOversized, "the document is too large", nil)
	}
	// Check the key before the ticket is consumed, so that a request without a usable key
	// does not spend the ticket.
	if err := checkKey(e.Key); err != nil {
		return attest.Identity{}, err
	}
	doc := string(e.Document)
	switch {
	case strings.HasPrefix(doc, TicketPrefix):
		return a.ticket(ctx, doc, e.Key)
	case jose.LooksLikeJWT(doc):
		return a.token(doc, e.Key)
	}
	return attest.Identity{}, attest.Reject(attest.ReasonMalformed, "the document is neither an enrolment ticket nor a task token", nil)
}

func (a *Attestor) ticket(ctx context.Context, doc string, key attest.Key) (attest.Identity, error) {
	if !validTicket(doc) {
		return attest.Identity{}, attest.Reject(attest.ReasonMalformed, "the enrolment ticket is damaged; copy it whole", nil)
	}
	t, err := a.cfg.Tickets.Redeem(ctx, TicketHash(doc), key.JKT)
	if err != nil {
		return attest.Identity{}, fmt.Errorf("attest/enroll: redeem ticket: %w", err)
	}
	if t.TaskID == "" || t.SandboxID == "" {
		return attest.Identity{}, errors.New("attest/enroll: redeem ticket: the store returned a ticket without a task or without a sandbox")
	}
	return a.identity(t.TaskID, t.SandboxID, key.JKT), nil
}

func (a *Attestor) token(doc string, key attest.Key) (attest.Identity, error) {
	c, err := jose.Verify(doc, a.profile, a.cfg.Keys, a.cfg.Now())
	if err != nil {
		if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
			return attest.Identity{}, err
		}
		return attest.Identity{}, fmt.Errorf("attest/enroll: cannot judge: %w", err)
	}
	jkt, _, err := c.Confirmation()
	if err != nil {
		return attest.Identity{}, attest.FromToken(err)
	}
	if jkt == "" || subtle.ConstantTimeCompare([]byte(jkt), []byte(key.JKT)) != 1 {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyBinding, "the task token is bound to another key", nil)
	}
	task, ok := c.String("task_id")
	if !ok || task == "" || c.Subject == "" || !jose.Plain(task) || len(task) > 256 {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the task token has no task or no sandbox", nil)
	}
	id := a.identity(task, c.Subject, jkt)
	id.NotAfter = c.Expiry
	id.ReplayID, id.ReplayUntil = a.cfg.Name+":"+c.Digest(), c.Expiry.Add(a.cfg.Leeway)
	return id, nil
}

func (a *Attestor) identity(task, sandbox, jkt string) attest.Identity {
	return attest.Identity{
		Attestor: a.cfg.Name, Subject: sandbox, Class: attest.ClassTicket, TaskID: task, Key: jkt,
		Selectors: map[string]string{"task_id": task, "sub": sandbox},
	}
}

// checkKey requires a proved Ed25519 or P-256 key, and that JKT is the thumbprint of that
// key.
func checkKey(k attest.Key) error {
	if k.JKT == "" {
		return attest.Reject(attest.ReasonKeyBinding, "prove a key: send a DPoP proof with the ticket or task token", nil)
	}
	switch pub := k.Public.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if pub == nil || pub.Curve != elliptic.P256() {
			return attest.Reject(attest.ReasonKeyBinding, "the key is not an Ed25519 or P-256 key", nil)
		}
	default:
		return attest.Reject(attest.ReasonKeyBinding, "the key is not an Ed25519 or P-256 key", nil)
	}
	if got, err := jose.Thumbprint(k.Public); err != nil || got != k.JKT {
		return errors.New("attest/enroll: the pipeline passed a key whose thumbprint differs from jkt")
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{"task_id", "sub"}
}

// TicketPrefix is the prefix of every ticket, so that ebb and scanners for leaked secrets
// recognize tickets.
const TicketPrefix = "ebb_tkt_"

// Ticket has the task and the sandbox of a redeemed ticket.
type Ticket struct {
	TaskID string
	// SandboxID is the sandbox that the task expects.
	SandboxID string
}

// Tickets is the broker's store of tickets, which holds hashes only.
type Tickets interface {
	// Redeem consumes the ticket whose TicketHash is hash, for the key jkt. It is atomic: of
	// any number of concurrent callers, on any replica and with any key, exactly one
	// receives the Ticket. For an unknown, used or expired ticket the error matches
	// attest.ErrRejected and does not say which of the three applies. Any other error means
	// that the store could not decide.
	Redeem(ctx context.Context, hash, jkt string) (Ticket, error)
}

// NewTicket returns a ticket of 256 random bits and its hash, which is the value to store.
func NewTicket() (ticket, hash string) {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails, see crypto/rand
	ticket = TicketPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return ticket, TicketHash(ticket)
}

// TicketHash returns the base64url SHA-256 of the ticket's text.
func TicketHash(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// validTicket reports whether s is a ticket in its only valid encoding.
func validTicket(s string) bool {
	text, found := strings.CutPrefix(s, TicketPrefix)
	if !found || len(text) != 43 {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}

// TaskTokenType is the typ of task tokens. No other token of ebb has this typ or the
// audience taskAudience, so neither kind is accepted as the other (RFC 8725, section 3.12).
const TaskTokenType = "ebb-task+jwt"

// taskAudience returns the aud of task tokens of an issuer.
func taskAudience(issuer string) string { return issuer + "/task" }

// TaskToken has the claims of a task token. All members but ID are required.
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
		Issuer: t.Issuer, Subject: t.SandboxID, Audience: taskAudience(t.Issuer), TaskID: t.TaskID,
		Cnf: confirmation{t.JKT}, IssuedAt: t.IssuedAt.Unix(), Expiry: t.ExpiresAt.Unix(), ID: t.ID,
	})
}
