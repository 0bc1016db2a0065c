package content

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/ebb-broker/ebb/scopes/amount"
)

// The bounds of Facts. They keep an audit log entry with facts below 64 KiB.
const (
	MaxOperations = 100      // of one request
	MaxObject     = 400      // bytes of an Operation's Object
	MaxDetail     = 256      // bytes of each value of an Operation's Details
	MaxText       = 4 << 10  // bytes of Facts.Text, so that a person reads all of it
	MaxFacts      = 48 << 10 // bytes of the JSON of all facts
)

// Facts are everything that one request does. Their members are in alphabetical order, so that the
// JSON is in canonical form (RFC 8785 section 3.2.3). ebb writes them to the audit log and shows them
// to people. They contain no secrets; a Text can contain anything that its author wrote into it.
type Facts struct {
	// Body is the hex SHA-256 of the body; "" = the operations state everything that the body says.
	Body       string      `json:"body_sha256,omitempty"`
	Kind       string      `json:"kind"` // the form of the body: "gitpush", "graphql", "json", "form" or "pgsql"
	Operations []Operation `json:"operations,omitempty"`
	// Text is the whole SQL text of a request that the scopes of its lease deny, in valid UTF-8. Only
	// people can allow such a request, and only with exactly this text. "" = an approval of the facts
	// allows nothing beyond the scopes.
	Text string `json:"text,omitempty"`
}

// NeedsPeople reports whether a credential that is limited to the facts allows more than its scopes,
// so that no policy alone can allow it.
func (f *Facts) NeedsPeople() bool { return f != nil && f.Text != "" }

// Sum returns the hex SHA-256 of the facts' JSON. Two requests with the same facts have the same sum.
func (f Facts) Sum() string {
	text, _ := json.Marshal(f) // cannot fail: all members are strings
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Amount returns the sum of the amounts of all operations; the zero Amount = they state none. The
// error means that they have different units, or that an amount is malformed.
func (f Facts) Amount() (sum amount.Amount, err error) {
	for _, o := range f.Operations {
		if o.Amount == "" {
			continue
		}
		one, err := amount.Parse(o.Amount)
		switch {
		case err != nil:
			return sum, err
		case sum.Unit == "":
			sum = one
		case sum.Unit != one.Unit:
			return sum, errUnits
		default:
			if sum, err = sum.Plus(one); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

var errUnits = errors.New("its amounts have different units")

// Idle reports whether a body was read and does nothing, such as the flush packet by which git learns
// whether it may push.
func (f Facts) Idle() bool { return f.Kind != "" && f.Body == "" && len(f.Operations) == 0 }

// Operation is one thing that a request does. All of its texts come from the sandbox. Its members are
// in alphabetical order, so that the JSON is in canonical form (RFC 8785 section 3.2.3).
type Operation struct {
	Action  string            `json:"action"`            // a verb of the kind, such as "create" or "delete"
	Amount  string            `json:"amount,omitempty"`  // the amount that it spends, as the text of an amount.Amount; "" = ebb knows of none
	Details map[string]string `json:"details,omitempty"` // further facts, such as the commit before and after
	Object  string            `json:"object"`            // such as "refs/heads/main" or "public.orders"
}

// Loses reports whether something can be lost by the operation.
func (o Operation) Loses() bool {
	return slices.Contains([]string{"delete", "force", "truncate", "unknown"}, o.Action) || o.Details["where"] == "no"
}

// Title returns what an operation does to its object, for people, and the names of the details that
// the title does not contain.
func (f Facts) Title(o Operation) (title string, details []string) {
	title, details = o.Action+" "+o.Object, slices.Sorted(maps.Keys(o.Details))
	if f.Kind == "pgsql" && o.Details["where"] == "no" {
		title, details = o.Action+" every row of "+o.Object, slices.DeleteFunc(details, func(name string) bool { return name == "where" })
	}
	return title, details
}

// Ordered returns the operations in the order in which people should see them: those by which
// something can be lost come first.
func (f Facts) Ordered() []Operation {
	rank := func(o Operation) int {
		if o.Loses() {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(f.Operations), func(a, b Operation) int { return rank(a) - rank(b) })
}

// Error refuses a body at any scopes of the lease.
type Error struct {
	Why   string // a clause such as "its pack does not follow the commands", without text from the sandbox
	Cause error  // nil = none
}

// Refuse returns an Error without a cause.
func Refuse(why string) error { return &Error{Why: why} }

// Error implements error.
func (e *Error) Error() string {
	if e.Cause == nil {
		return "the body is refused: " + e.Why
	}
	return "the body is refused: " + e.Why + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
