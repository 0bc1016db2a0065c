package wire

import "time"

// Policy is the policy set in force.
type Policy struct {
	// Version is the hash of its files.
	Version string `json:"version"`
	// Source is where it comes from: starter, files or database.
	Source string `json:"source"`
	// Since is since when the answering process decides by it.
	Since time.Time `json:"since"`
	// Release is the number under which it was published; 0 = it was not.
	Release int64 `json:"release,omitempty"`
	// Author is its author.
	Author string `json:"author,omitempty"`
	// By is the person that published it.
	By string `json:"by,omitempty"`
	// Files are its files.
	Files []PolicyFile `json:"files"`
}

// PolicyFile is one file of a policy set.
type PolicyFile struct {
	// Name ends in .cedar.
	Name string `json:"name"`
	// Text is its Cedar text.
	Text string `json:"text"`
}

// ExplainBody is the body of POST /v1/policy/explain.
type ExplainBody struct {
	// Query is the question.
	Query PolicyQuery `json:"query"`
}

// PolicyQuery is everything that a decision depends on.
type PolicyQuery struct {
	// Sandbox is the attested sandbox.
	Sandbox PolicySandbox `json:"sandbox"`
	// Task is its task.
	Task PolicyTask `json:"task"`
	// Scopes is the requested scope.
	Scopes string `json:"scope"`
	// Tool is the tool, as the sandbox claims.
	Tool string `json:"tool,omitempty"`
	// TTL is the requested lifetime in seconds, at least 1.
	TTL int64 `json:"ttl_seconds"`
	// Binding is dpop (RFC 9449) or mtls (RFC 8705).
	Binding string `json:"binding"`
	// Delivery is DeliveryToken or DeliveryEgress; "" = as ebb would deliver these scopes.
	Delivery string `json:"delivery"`
	// CouldStay says, with DeliveryToken, that egress could add some of the credential to requests instead.
	CouldStay bool `json:"could_stay,omitempty"`
	// Revocability is how the provider revokes its credentials; "" = as the providers of the scopes promise.
	Revocability Class `json:"revocability,omitempty"`
	// Bound is the revocation bound in seconds, of ClassEventual.
	Bound int64 `json:"revocation_bound,omitempty"`
	// Record is how the task has behaved so far.
	Record PolicyRecord `json:"record"`
	// Taint are the untrusted sources that the task has read.
	Taint []string `json:"taint,omitempty"`
	// Content is the one refused request to which the credential would be limited; nil = no such limit.
	Content *PolicyContent `json:"content,omitempty"`
}

// PolicySandbox is the sandbox of a PolicyQuery. ID and Attestor are required.
type PolicySandbox struct {
	// ID is the sandbox.
	ID string `json:"id"`
	// Attestor is the attestor that accepted its evidence.
	Attestor string `json:"attestor"`
	// Evidence is the class of the evidence.
	Evidence string `json:"evidence"`
	// Subject is the attestor's name for it.
	Subject string `json:"subject"`
	// Selectors are its selectors.
	Selectors map[string]string `json:"selectors,omitempty"`
}

// PolicyTask is the task of a PolicyQuery. ID is required.
type PolicyTask struct {
	// ID is the task.
	ID string `json:"id"`
	// Kind is its kind.
	Kind string `json:"kind"`
	// Owner is its owner.
	Owner string `json:"owner"`
	// Name is its name.
	Name string `json:"name,omitempty"`
	// Labels are its labels.
	Labels map[string]string `json:"labels,omitempty"`
	// Age is the number of seconds since it was opened.
	Age int64 `json:"age_seconds"`
	// Depth is how many sandboxes in a row delegated to it; 0 = a runner opened it.
	Depth int `json:"depth,omitempty"`
}

// PolicyContent is the one request to which a credential is limited.
type PolicyContent struct {
	// Kind is how ebb reads the body: "gitpush", "graphql", "json", "form" or "pgsql".
	Kind string `json:"kind"`
	// Actions are the actions of its operations, such as "delete".
	Actions []string `json:"actions,omitempty"`
	// Objects are the objects of its operations, such as "acme/web/refs/heads/main".
	Objects []string `json:"objects,omitempty"`
	// Amount is the sum of its amounts, such as "EUR 12.5"; "" = it states none.
	Amount string `json:"amount,omitempty"`
}

// PolicyRecord is how a task has behaved so far.
type PolicyRecord struct {
	// Denials is the number of denied requests.
	Denials int `json:"denials"`
	// Violations is the number of attempts that only an attacker or a bug makes.
	Violations int `json:"violations"`
}

// Effect is the answer of policy.
type Effect string

// Effects.
const (
	EffectDeny  Effect = "deny"
	EffectAsk   Effect = "ask" // granted when people approve
	EffectAllow Effect = "allow"
)

// Decision is the answer of policy to one query.
type Decision struct {
	// Effect is the answer.
	Effect Effect `json:"effect"`
	// Scopes is the granted scope, or the scope that people are asked for: all of the requested scope, or nothing.
	Scopes string `json:"scope"`
	// TTL is the lifetime in seconds, at most the requested one; 0 with EffectDeny.
	TTL int64 `json:"ttl_seconds"`
	// Ask says who must agree, with EffectAsk.
	Ask *Approvers `json:"ask,omitempty"`
	// MaxAmount is what the task may spend at the provider, as in Facts; nil = no limit.
	MaxAmount []string `json:"max_amount,omitzero"`
	// Deliver is how the credential is delivered; "" with EffectDeny.
	Deliver string `json:"deliver,omitempty"`
	// Rules are the ids of the policies that decided, sorted.
	Rules []string `json:"rules,omitempty"`
	// Why are sentences of those policies, or what no policy permits.
	Why []string `json:"why,omitempty"`
	// WouldAllow is the part that is granted without a person.
	WouldAllow string `json:"would_allow"`
	// Denied is the part that is forbidden or that no policy permits.
	Denied string `json:"denied"`
	// Version is the version of the policy set.
	Version string `json:"policy_version"`
}

// Explanation is a decision with the part of every policy in it.
type Explanation struct {
	// Decision is the decision.
	Decision Decision `json:"decision"`
	// Scopes are the requested scopes one by one, in order.
	Scopes []ScopeExplanation `json:"scopes"`
}

// ScopeExplanation is the judgement of one requested scope.
type ScopeExplanation struct {
	// Scope is the scope.
	Scope string `json:"scope"`
	// Effect is the answer.
	Effect Effect `json:"effect"`
	// Policies are all policies, sorted by ID.
	Policies []PolicyVerdict `json:"policies"`
}

// PolicyVerdict is what one policy says about one scope.
type PolicyVerdict struct {
	// ID is the id of the policy.
	ID string `json:"id"`
	// File is its file.
	File string `json:"file"`
	// Line is its first line in File.
	Line int `json:"line"`
	// Effect is permit, ask or forbid.
	Effect string `json:"effect"`
	// Matches is yes, no, or maybe: it holds for a part of the pattern, or that is not known.
	Matches string `json:"matches"`
	// Decides says that it is one of the policies that determine the scope's effect.
	Decides bool `json:"decides"`
	// Reason is a sentence for people.
	Reason string `json:"reason"`
}
