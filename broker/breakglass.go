package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// BreakGlassReview is the time in which a period must be reviewed after its end: 24 hours.
const BreakGlassReview = 24 * time.Hour

var incidentForm = lazyregexp.New(`\A[A-Za-z0-9][A-Za-z0-9._/#-]{0,63}\z`)

// BreakGlass is a period in which one named person approves alone, regardless of the groups and quorum
// the policy demands. It changes nothing else. Still refused are: requests that the policy
// denies, requests of the person's own task, requests that ebb does not understand, and
// requests beyond the limits of the task or its evidence.
type BreakGlass struct {
	BreakGlassPlan
	Also       []string  `json:"-"`                    // other names of the person
	Proof      string    `json:"-"`                    // JSON of a passkey assertion; "" = AuthAt is the proof
	AuthAt     time.Time `json:"proved_at,omitzero"`   // when the person signed in again, as the identity provider reports it
	ACR        string    `json:"acr,omitempty"`        // strength of that sign-in (acr) in the identity provider's words
	BegunAt    time.Time `json:"begun_at"`             //
	EndsAt     time.Time `json:"ends_at"`              // at the latest; EndedAt may be earlier
	EndedAt    time.Time `json:"ended_at,omitzero"`    //
	EndedBy    string    `json:"ended_by,omitempty"`   //
	Used       int       `json:"used"`                 // approvals given in the period
	ReviewedAt time.Time `json:"reviewed_at,omitzero"` //
	ReviewedBy string    `json:"reviewed_by,omitempty"`
	Note       string    `json:"note,omitempty"` // the reviewer's note
	Session    string    `json:"-"`              // id of the console session in which the period began
	Groups     []string  `json:"-"`              // groups of the person when the period began
}

// Open reports whether approvals may be given in the period now. A clock more than ClockSkew
// before the beginning of the period is wrong, and the period then counts as closed.
func (g BreakGlass) Open(now time.Time) bool {
	return g.EndedAt.IsZero() && !now.Before(g.BegunAt.Add(-ClockSkew)) && now.Before(g.EndsAt)
}

// Over returns when the period ended or will end.
func (g BreakGlass) Over() time.Time { return Earliest(g.EndsAt, g.EndedAt) }

// Overdue reports whether the period should have been reviewed by now.
func (g BreakGlass) Overdue(now time.Time) bool {
	return g.ReviewedAt.IsZero() && now.Sub(g.Over()) >= BreakGlassReview
}

// Of reports whether the period belongs to this person, under any of their names.
func (g BreakGlass) Of(who Principal) bool {
	return who.Named(append([]string{g.Person}, g.Also...)...)
}

// SamePerson reports whether two periods belong to one person, judged by their names.
func (g BreakGlass) SamePerson(o BreakGlass) bool {
	return Vote{By: g.Person, Also: g.Also}.SamePerson(Vote{By: o.Person, Also: o.Also})
}

// BreakGlassFilter selects periods. Zero members match everything.
type BreakGlassFilter struct {
	ID, Person string
	Unreviewed bool
	Unended    bool
	ReviewedOf []string // only reviewed periods, and of them only those of these people, compared with people.Same; nil = of all people
	After      string   // exclusive, an id; "" = the newest
	Limit      int      // 1..1000, 0 = 50
}

// BreakGlassPlan is the period that a person asks for. Their proof (passkey or sign-in) covers
// it.
type BreakGlassPlan struct {
	ID       string    `json:"id"` // "brk_..."; the period that begins keeps this id
	Person   string    `json:"person"`
	Incident string    `json:"incident"` // as the person named it
	Reason   string    `json:"reason"`
	TTL      Seconds   `json:"ttl_seconds"`
	Most     int       `json:"most"` // largest number of approvals in the period
	AskedAt  time.Time `json:"asked_at"`
}

// Digest returns the hex SHA-256 of the plan in canonical JSON (RFC 8785): the person,
// incident, reason, limits and time of the request.
func (p BreakGlassPlan) Digest() string {
	p.AskedAt = p.AskedAt.UTC()
	raw, err := json.Marshal(p)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil { // Check has refused text that is not UTF-8
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func (p BreakGlassPlan) Check() error {
	switch n := utf8.RuneCountInString(p.Reason); {
	case !incidentForm.MatchString(p.Incident):
		return E(Invalid, "Name the incident: letters, digits and . _ / # -, at most 64.", nil)
	case n < 10 || n > 500 || !jose.Plain(p.Reason):
		return E(Invalid, "Give a reason of 10 to 500 printable characters: why the approval cannot wait for other approvers.", nil)
	}
	return nil
}
