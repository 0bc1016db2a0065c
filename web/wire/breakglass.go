package wire

import "time"

// BreakGlass is a period in which a named person approves alone, regardless of the groups and the number of people that policy requires.
type BreakGlass struct {
	// ID is "brk_" and 32 hex digits.
	ID string `json:"id"`
	// Person is the person.
	Person string `json:"person"`
	// Incident is the incident as the person named it.
	Incident string `json:"incident"`
	// Reason is the reason that the person gave.
	Reason string `json:"reason"`
	// TTL is the longest duration in seconds.
	TTL int64 `json:"ttl_seconds"`
	// Most is the number of requests that may be approved in the period.
	Most int `json:"most"`
	// AskedAt is when the person asked for it.
	AskedAt time.Time `json:"asked_at"`
	// AuthAt is when the identity provider authenticated the person anew; zero = a passkey signed the beginning.
	AuthAt time.Time `json:"proved_at,omitzero"`
	// ACR is how strongly, in the words of the identity provider (OpenID Connect Core section 2).
	ACR string `json:"acr,omitempty"`
	// BegunAt is when the period began.
	BegunAt time.Time `json:"begun_at"`
	// EndsAt is when it ends at the latest.
	EndsAt time.Time `json:"ends_at"`
	// EndedAt is when it ended; zero while it has not.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// EndedBy is the person that ended it.
	EndedBy string `json:"ended_by,omitempty"`
	// Used is the number of requests that were approved in it.
	Used int `json:"used"`
	// ReviewedAt is when it was reviewed; zero while it has not been.
	ReviewedAt time.Time `json:"reviewed_at,omitzero"`
	// ReviewedBy is the person that reviewed it.
	ReviewedBy string `json:"reviewed_by,omitempty"`
	// Note is the note of the review.
	Note string `json:"note,omitempty"`
}
