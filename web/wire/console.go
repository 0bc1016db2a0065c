package wire

import "time"

// SignInLink is the answer of POST /v1/signin-link.
type SignInLink struct {
	// URL signs the caller in to the console, once. It is a secret of the caller.
	URL string `json:"url"`
	// ExpiresAt is when URL expires.
	ExpiresAt time.Time `json:"expires_at"`
}

// SecretBody is the body of POST /v1/secrets.
type SecretBody struct {
	// Name is 1 to 64 of the characters a-z, 0-9, dot, underscore and hyphen, and begins with a letter.
	Name string `json:"name"`
	// Value is the secret, at most 65,536 bytes.
	Value string `json:"value"`
}

// StoredSecret is a secret of the operator without its value.
type StoredSecret struct {
	// Name is its name.
	Name string `json:"name"`
	// ChangedAt is when it was put, or exchanged for its successor.
	ChangedAt time.Time `json:"changed_at"`
}

// Ready is the answer of GET /readyz.
type Ready struct {
	// Status is ready or not_ready.
	Status string `json:"status"`
	// Dependencies are ebb's dependencies.
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency is the state of one dependency of ebb.
type Dependency struct {
	// Name is its name.
	Name string `json:"name"`
	// State is up, warning or down.
	State string `json:"state"`
	// Warning is a sentence about a state that an operator should look at.
	Warning string `json:"warning,omitempty"`
	// Reason is why it is down, one of a fixed set of sentences; "" where there is none for it.
	Reason string `json:"reason,omitempty"`
}

// Live is the answer of GET /livez.
type Live struct {
	// Status is always live.
	Status string `json:"status"`
}
