package wire

import "time"

// Facts is what an approver decides on, computed by ebb alone: the agent's words are not among them. Request.Facts holds
// its canonical JSON. Decode a copy for display and send Request.Digest back, which names the bytes.
type Facts struct {
	// Request is the id of the request.
	Request string `json:"request_id"`
	// Scope is the requested scope.
	Scope string `json:"scope"`
	// Resource is the resource that the credential is for (RFC 8707).
	Resource string `json:"resource"`
	// Provider is the name of the provider.
	Provider string `json:"provider"`
	// Class is how the provider revokes the credential.
	Class Class `json:"revocability"`
	// Bound is the revocation bound in seconds, of ClassEventual.
	Bound int64 `json:"revocation_bound"`
	// TTL is the requested lifetime in seconds.
	TTL int64 `json:"ttl_seconds"`
	// Reuse is the number of seconds for which the approval serves this and less, with the same tool.
	Reuse int64 `json:"grant_seconds"`
	// Binding is the key that the credential will be bound to.
	Binding Binding `json:"cnf"`
	// Tool is the tool that needs the credential.
	Tool string `json:"tool"`
	// TaskID is the task that asks.
	TaskID string `json:"task_id"`
	// TaskName is the name of the task.
	TaskName string `json:"task_name"`
	// TaskKind is the kind of the task.
	TaskKind string `json:"task_kind"`
	// Owner is the owner of the task.
	Owner string `json:"owner"`
	// Runner is the runner of the task.
	Runner string `json:"runner"`
	// Labels are the labels of the task.
	Labels map[string]string `json:"labels"`
	// Deadline is the deadline of the task.
	Deadline time.Time `json:"deadline"`
	// Sandbox is the sandbox that asks.
	Sandbox Sandbox `json:"sandbox"`
	// Above are the sandboxes that delegated, from the one of the runner's task on.
	Above []string `json:"delegated_by,omitempty"`
	// WouldAllow is the part of Scope that is granted without a person.
	WouldAllow string `json:"would_allow"`
	// Rules are the ids of the policies that decided.
	Rules []string `json:"rules"`
	// Why are sentences of those policies.
	Why []string `json:"why"`
	// Ask says who must agree.
	Ask Approvers `json:"ask"`
	// Policy is the version of the policy set.
	Policy string `json:"policy_version"`
	// Violations is the number of attempts of the task that only an attacker or a bug makes.
	Violations int `json:"violations"`
	// Taint are the untrusted sources that the task has read, sorted.
	Taint []string `json:"taint"`
	// ExpiresAt is when the request expires undecided.
	ExpiresAt time.Time `json:"expires_at"`
	// EndsBy is when everything that comes of the approval has ended, at the latest. Requests of older versions lack it
	// and the members below.
	EndsBy time.Time `json:"ends_by,omitzero"`
	// Effect is what the scopes allow together.
	Effect *FactsEffect `json:"effect,omitempty"`
	// Undoable is the part of Scope whose effects can be undone; "" when that is all or nothing.
	Undoable string `json:"undoable,omitempty"`
	// Risk is the assessed risk.
	Risk *FactsRisk `json:"risk,omitempty"`
	// Then is what moves by itself, as it was when the request was made.
	Then *FactsAsAsked `json:"as_asked,omitempty"`
	// Delivery is DeliveryToken or DeliveryEgress.
	Delivery string `json:"delivery,omitempty"`
	// CouldStay says that the sandbox receives the credential although egress could add it, or a part of it, to requests.
	CouldStay bool `json:"could_stay,omitempty"`
	// Content lists the operations of the one request that the approval is for; nil = the credential is for every
	// request that the scopes cover.
	Content *FactsContent `json:"content,omitempty"`
	// MaxAmount is what the runner's task and all tasks below it may spend at the provider, with what they spent there
	// before, such as "EUR 50". Other units may not be spent; nil = no limit.
	MaxAmount []string `json:"max_amount,omitzero"`
}

// FactsContent is what one request through egress does. All of its texts come from the sandbox.
type FactsContent struct {
	// Body is the hex SHA-256 of the body; "" = Operations state everything that the body says.
	Body string `json:"body_sha256,omitempty"`
	// Kind is how ebb read the body: "gitpush", "graphql", "json", "form" or "pgsql".
	Kind string `json:"kind"`
	// Operations are what the request does, in its order.
	Operations []FactsOperation `json:"operations,omitempty"`
	// Text is the whole SQL text that an approval allows once, beside the scope; "" for all others.
	Text string `json:"text,omitempty"`
}

// FactsOperation is one thing that a request does.
type FactsOperation struct {
	// Action is a verb of the kind, such as "create" or "delete".
	Action string `json:"action"`
	// Amount is what it spends, such as "EUR 12.5"; "" = nothing that ebb knows.
	Amount string `json:"amount,omitempty"`
	// Details are further facts, such as the commit before and after.
	Details map[string]string `json:"details,omitempty"`
	// Object is the object of the action, such as "refs/heads/main".
	Object string `json:"object"`
}

// FactsEffect is what the scopes of a request allow together; the worst of each answer.
type FactsEffect struct {
	// Described says that the provider's kind describes its scopes.
	Described bool `json:"described"`
	// Understood says that it describes all of these; if not, the request cannot be approved.
	Understood bool `json:"understood"`
	// Writes is yes, no or unknown.
	Writes string `json:"writes"`
	// Reversible is yes, no or unknown.
	Reversible string `json:"reversible"`
	// Sentences describe the effects for people.
	Sentences []string `json:"sentences"`
}

// FactsRisk is the assessed risk of a request.
type FactsRisk struct {
	// Level is low, medium or high.
	Level string `json:"level"`
	// Reasons are the reasons for the level, the strongest first.
	Reasons []RiskReason `json:"reasons"`
}

// RiskReason is one reason of a risk level.
type RiskReason struct {
	// ID is the id of the rule.
	ID string `json:"id"`
	// Level is low, medium or high.
	Level string `json:"level"`
	// Text is one sentence for people.
	Text string `json:"text"`
}

// FactsAsAsked is what moves by itself while a request waits, as it was when the request was made.
type FactsAsAsked struct {
	// At is when the request was made.
	At time.Time `json:"at"`
	// EvidenceAge is the age of the sandbox's evidence in seconds; 0 = it came with the request.
	EvidenceAge int64 `json:"evidence_age_seconds"`
	// Denials is the number of denied requests of the task.
	Denials int `json:"denials"`
	// Grants is the number of approvals of the task that can still be used.
	Grants int `json:"grants_live"`
	// First says that these actions at this provider were never approved for this owner and kind of task.
	First bool `json:"first"`
	// Earlier counts earlier requests for the same scope.
	Earlier FactsEarlier `json:"earlier"`
	// Changes compares the permissions of the task with those it would have.
	Changes []FactsChange `json:"changes"`
}

// FactsEarlier counts requests for the same scope for the same owner, of the newest 100 to this provider in 90 days.
type FactsEarlier struct {
	// Asked is how often it was asked for.
	Asked int `json:"asked"`
	// Approved is how often it was approved.
	Approved int `json:"approved"`
	// Denied is how often it was denied.
	Denied int `json:"denied"`
	// Last is the state of the newest of them.
	Last RequestState `json:"last,omitempty"`
	// LastAt is when the newest was decided.
	LastAt time.Time `json:"last_at,omitzero"`
	// LastBy is the approver of the newest.
	LastBy string `json:"last_by,omitempty"`
	// LastCode is why the newest was denied.
	LastCode DenyCode `json:"last_code,omitempty"`
}

// FactsChange compares one permission of a task with the requested one.
type FactsChange struct {
	// Field is permission, resource, audience, time or binding.
	Field string `json:"field"`
	// Now is the present value; "" = nothing.
	Now string `json:"now"`
	// Asked is the requested value.
	Asked string `json:"asked"`
	// Changed says that the two differ.
	Changed bool `json:"changed"`
}
