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

// Config configures the one enroll attestor of an ebb.
type Config struct {
	// Name of the instance. Required.
	Name string
	// Issuer is ebb's own, byte-identical to the iss of its tokens. Required.
	Issuer string
	// Tickets redeems enrolment tickets. Required.
	Tickets Tickets
	// Keys finds ebb's own public keys. Required.
	Keys jose.KeySource
	// MaxLifetime of a task token: the longest task. Default 24 h.
	MaxLifetime time.Duration
	// Leeway for clocks of replicas that differ. Default 0; at most 1 m.
	Leeway time.Duration
	// Now is the clock, nil = time.Now.
	Now func() time.Time
}

// Decode reads the configuration file's part: there is nothing to set, so that
// only an absent or empty object is accepted.
func Decode(raw json.RawMessage) (Config, error) {
	if len(raw) == 0 {
		return Config{}, nil
	}
	if _, err := attest.Decode[struct{}]("enroll", raw); err != nil {
		return Config{}, fmt.Errorf("%w; it takes none", err)
	}
	return Config{}, nil
}

// Attestor judges tickets and task tokens.
type Attestor struct {
	cfg     Config
	profile jose.Profile
}

var _ attest.Attestor = (*Attestor)(nil)

// New makes an Attestor.
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
		Issuer: c.Issuer, Audience: TaskAudience(c.Issuer),
		MaxLifetime: c.MaxLifetime, Leeway: c.Leeway,
	}}, nil
}

// Attest implements attest.Attestor. A ticket is spent by it.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/enroll: %w", err)
	}
	if len(e.Document) > attest.MaxDocument {
		return attest.Identity{}, attest.Reject(attest.ReasonOversized, "the document is too large", nil)
	}
	// Before anything is spent: who shows no usable key gets nothing for it.
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
		return attest.Identity{}, errors.New("attest/enroll: redeem ticket: the store names no task or no sandbox")
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
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the task token names no task or no sandbox", nil)
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

// checkKey wants a proved Ed25519 or P-256 key, and that its thumbprint is its own.
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
		return errors.New("attest/enroll: the pipeline passed a key that is not the one of its thumbprint")
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{"task_id", "sub"}
}

// TicketPrefix begins every ticket, so that scanners for leaked secrets, and
// ebb, know one.
const TicketPrefix = "ebb_tkt_"

// Ticket is what a redeemed ticket stood for.
type Ticket struct {
	TaskID string
	// SandboxID that the task expects.
	SandboxID string
}

// Tickets is the broker's store of tickets, which holds hashes only.
type Tickets interface {
	// Redeem takes the ticket whose TicketHash is hash, for the key jkt. It is
	// atomic and single-use: of any number of callers, on any replica, with the
	// same key or another, exactly one gets the Ticket. A ticket that is unknown,
	// used or expired is an error that matches attest.ErrRejected, and one does
	// not say which; any other error means that the store could not tell.
	Redeem(ctx context.Context, hash, jkt string) (Ticket, error)
}

// NewTicket makes a ticket of 256 random bits and the hash to keep of it.
func NewTicket() (ticket, hash string) {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails, see crypto/rand
	ticket = TicketPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return ticket, TicketHash(ticket)
}

// TicketHash is the base64url SHA-256 of the ticket's text.
func TicketHash(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// validTicket reports whether s has the one spelling of a ticket.
func validTicket(s string) bool {
	text, found := strings.CutPrefix(s, TicketPrefix)
	if !found || len(text) != 43 {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}

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
