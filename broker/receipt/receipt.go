package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"
)

// Shown is the highest number of credentials that a receipt lists. The others are counted, and a
// digest covers them.
const Shown = 100

// Receipt is the state of a task's credentials at third parties at one moment.
type Receipt struct {
	Issuer   string    `json:"iss"`
	IssuedAt int64     `json:"iat"` // Unix seconds
	Task     string    `json:"task"`
	ClosedAt time.Time `json:"closed_at"`
	Cause    string    `json:"cause"`
	// Delegated is the number of delegated tasks below the task that ended with it. Live and
	// Expired include their credentials. Credentials includes those of all tasks that were ever
	// delegated below it.
	Delegated int `json:"delegated_tasks,omitempty"`
	Live      int `json:"live"`    // credentials of every kind that were live when the task ended: refused since
	Expired   int `json:"expired"` // had expired before
	// Uncounted is set if the live state did not answer at the end. Live and Expired may then be
	// too low. Third-party credentials are counted from the audit log.
	Uncounted bool           `json:"uncounted,omitempty"`
	Complete  bool           `json:"complete"`
	Total     int            `json:"third_party"` // credentials at third parties
	States    map[string]int `json:"states"`      // how many of them are in which state
	// Credentials are the first Shown credentials, sorted by id.
	Credentials []Credential `json:"credentials"`
	Rest        *Rest        `json:"rest,omitempty"` // nil = there are no others
}

// Credential is one credential at a third party.
type Credential struct {
	Lease      string    `json:"lease"`
	Task       string    `json:"task,omitempty"` // a delegated one; "" = that of the receipt
	Provider   string    `json:"provider"`
	Scope      string    `json:"scope"`
	Class      string    `json:"class"`                   // instant, eventual or ttl-only
	Bound      int64     `json:"bound_seconds,omitempty"` // of class eventual
	State      string    `json:"state"`                   // revoking: not known to be dead yet
	RevokedAt  time.Time `json:"revoked_at,omitzero"`     // refused by the broker since
	AcceptedAt time.Time `json:"accepted_at,omitzero"`    // the provider took the revocation
	DeadAt     time.Time `json:"dead_at,omitzero"`        // dead at the provider since, at the latest
	Proof      string    `json:"proof,omitempty"`         // how that is known: probed, confirmed, bound, expired, never, forced, none
	ProbedAt   time.Time `json:"probed_at,omitzero"`
	Attempts   int       `json:"attempts"` // that failed
}

// Rest counts the credentials that are not listed.
type Rest struct {
	Count  int    `json:"count"`
	Dead   int    `json:"dead"`   // known to be dead
	SHA256 string `json:"sha256"` // hex, over the JSON of each and a line feed, in the order of their ids
}

// isDead reports whether the provider is known to refuse the credential.
func (c Credential) isDead() bool {
	switch c.State {
	case "revoked", "expired", "unconfirmed":
		return c.Proof != "forced" && c.Proof != "none" && c.Proof != "" && !c.DeadAt.IsZero()
	}
	return false
}

// Builder builds a receipt for any number of credentials.
type Builder struct {
	r    Receipt
	dead int
	rest Rest
	sum  hash.Hash
}

// NewBuilder returns a Builder for r, which has all members except the credentials.
func NewBuilder(r Receipt) *Builder {
	r.States, r.Credentials = map[string]int{}, []Credential{}
	return &Builder{r: r, sum: sha256.New()}
}

// Add adds the next credential. The caller adds them sorted by id.
func (b *Builder) Add(c Credential) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	b.r.Total++
	b.r.States[c.State]++
	if c.isDead() {
		b.dead++
	}
	if len(b.r.Credentials) < Shown {
		b.r.Credentials = append(b.r.Credentials, c)
		return nil
	}
	b.rest.Count++
	if c.isDead() {
		b.rest.Dead++
	}
	b.sum.Write(append(raw, '\n')) //nolint:errcheck // a hash never fails
	return nil
}

// Receipt returns the receipt of the credentials that were added.
func (b *Builder) Receipt() Receipt {
	r := b.r
	r.Complete = b.dead == r.Total
	if b.rest.Count > 0 {
		rest := b.rest
		rest.SHA256 = hex.EncodeToString(b.sum.Sum(nil))
		r.Rest = &rest
	}
	return r
}

// check refuses a receipt that contradicts itself, so that neither Sign nor Verify accepts one.
func (r Receipt) check() error {
	dead, shown := 0, map[string]int{}
	last := ""
	for _, c := range r.Credentials {
		if c.Lease <= last {
			return fmt.Errorf("credential %q comes after %q: credentials must be sorted by lease id without duplicates", c.Lease, last)
		}
		last = c.Lease
		shown[c.State]++
		if c.isDead() {
			dead++
		}
	}
	total := len(r.Credentials)
	if r.Rest != nil {
		total, dead = total+r.Rest.Count, dead+r.Rest.Dead
		if r.Rest.Count < 1 || r.Rest.Dead < 0 || r.Rest.Dead > r.Rest.Count || len(r.Credentials) != Shown {
			return fmt.Errorf("rest: count %d with %d dead beside %d listed credentials; rest needs 0 <= dead <= count, count >= 1, and %d listed credentials", r.Rest.Count, r.Rest.Dead, len(r.Credentials), Shown)
		}
	}
	sum := 0
	for state, n := range shown {
		if r.States[state] < n {
			return fmt.Errorf("states: %q counts %d, and %d credentials of that state are listed", state, r.States[state], n)
		}
	}
	for _, n := range r.States {
		sum += n
	}
	switch {
	case r.Issuer == "" || r.Task == "" || r.ClosedAt.IsZero() || r.IssuedAt <= 0:
		return errors.New("iss, task, closed_at and iat are required")
	case total != r.Total || sum != r.Total:
		return fmt.Errorf("third_party is %d, but %d credentials are listed or in rest, and states add up to %d", r.Total, total, sum)
	case r.Complete != (dead == r.Total):
		return fmt.Errorf("complete is %t, but %d of %d credentials are dead", r.Complete, dead, r.Total)
	}
	return nil
}
