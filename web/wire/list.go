package wire

import (
	"encoding/json"
	"time"
)

// List is one page of a listing.
type List[T any] struct {
	// Items are the page's items, in the order that the call documents.
	Items []T `json:"items"`
	// Next is the query parameter "after" of the next page; "" on the last page. Listings that are never paged leave it out.
	Next string `json:"next,omitempty"`
}

// AgentText is one JSON string that an agent wrote, in printable ASCII: every other character is a \u escape. It stays
// encoded so that a program which prints it by accident prints no terminal escape and no markup. Decode it with
// encoding/json, and never let the result decide anything.
type AgentText = json.RawMessage

// Feed is one answer of the revocation feed, GET /v1/revocations.
type Feed struct {
	// Events are the events after the cursor of the request, the oldest first.
	Events []Event `json:"events"`
	// Cursor is the query parameter "cursor" of the next call.
	Cursor string `json:"cursor"`
	// MaxAge is the number of seconds after which a follower without a newer answer must refuse all tokens.
	MaxAge int64 `json:"max_age_seconds"`
	// Audiences are the audiences of whose tokens the caller hears; nil = of all.
	Audiences []string `json:"audiences,omitempty"`
}

// Event is the end of a credential or of a whole task.
type Event struct {
	// TaskID is the task.
	TaskID string `json:"task_id"`
	// LeaseID is the credential; "" = every credential of the task.
	LeaseID string `json:"lease_id,omitempty"`
	// At is when it ended.
	At time.Time `json:"at"`
	// Until is when a follower may forget the event: every token that it concerns has expired.
	Until time.Time `json:"until"`
}
