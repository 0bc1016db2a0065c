package wire

import "time"

// Provider is the state of a configured provider.
type Provider struct {
	// Name is the name in the configuration.
	Name string `json:"name"`
	// Kind is the kind of the provider, such as github.
	Kind string `json:"kind"`
	// Resource is the resource URI of its credentials (RFC 8707).
	Resource string `json:"resource"`
	// Class is how it revokes its credentials.
	Class Class `json:"revocability"`
	// Bound is the revocation bound in seconds, of ClassEventual.
	Bound int64 `json:"revocation_bound,omitempty"`
	// ThirdParty says that its credentials live outside of ebb.
	ThirdParty bool `json:"third_party"`
	// Parallel is the number of calls to it at one time.
	Parallel int `json:"parallel,omitempty"`
	// MaxLive is the number of live credentials at one time; 0 = no bound.
	MaxLive int `json:"max_live,omitempty"`
	// Held is the number of credentials in no final state.
	Held int `json:"held"`
	// PendingRevocations is the number of those that ebb refuses and that are not known to be dead at the provider.
	PendingRevocations int `json:"pending_revocations"`
	// PendingSince is since when the oldest of those is refused.
	PendingSince time.Time `json:"pending_since,omitzero"`
	// NextAt is when ebb next tries to revoke one of those.
	NextAt time.Time `json:"next_attempt_at,omitzero"`
	// Breaker is the circuit breaker of this replica: closed, half-open or open; "" = there is none.
	Breaker string `json:"breaker,omitempty"`
}

// SelfTestSpec is the body of POST /v1/providers/{name}/check.
type SelfTestSpec struct {
	// Scopes is issued and revoked again; "" = only the set-up is checked.
	Scopes string `json:"scope,omitempty"`
	// TTL is the lifetime of the issued credential in seconds, 10 to 3600; 0 = 60.
	TTL int64 `json:"ttl_seconds,omitempty"`
}

// SelfTest is the outcome of a provider's self-test.
type SelfTest struct {
	// Provider is the name of the provider.
	Provider string `json:"provider"`
	// Kind is the kind of the provider.
	Kind string `json:"kind"`
	// OK says that no step failed.
	OK bool `json:"ok"`
	// TaskID is the task of the test; "" when nothing was issued.
	TaskID string `json:"task_id,omitempty"`
	// LeaseID is the lease of the issued credential.
	LeaseID string `json:"lease_id,omitempty"`
	// Steps are the checks in their order.
	Steps []SelfTestStep `json:"steps"`
}

// SelfTestStep is one check of a self-test.
type SelfTestStep struct {
	// Step is setup, check, mint, alive or revoke.
	Step string `json:"step"`
	// OK is false when the provider does not work until this is mended, unless Notice.
	OK bool `json:"ok"`
	// Notice says that the provider works and that its set-up should be changed.
	Notice bool `json:"notice"`
	// What is one sentence without secrets.
	What string `json:"what"`
	// Remedy is one sentence that says what to do.
	Remedy string `json:"remedy,omitempty"`
	// Millis is the duration of the step in milliseconds.
	Millis int64 `json:"took_ms"`
}
