package wire

import (
	"encoding/json"
	"time"
)

// Attestor is a configured attestor.
type Attestor struct {
	// Name is the name in the configuration.
	Name string `json:"name"`
	// Challenges says that its evidence answers a Challenge.
	Challenges bool `json:"challenges"`
	// Watches says that it notices the exit of a sandbox.
	Watches bool `json:"watches"`
	// People says that it authenticates principals and no sandboxes.
	People bool `json:"people"`
	// OnSandboxExit is the action on a sandbox's exit.
	OnSandboxExit Action `json:"on_sandbox_exit"`
	// Reattest is the number of seconds after which a sandbox must attest itself again; 0 = as the evidence says.
	Reattest int64 `json:"reattest_seconds"`
	// OnMissedAttestation is the action when a sandbox does not.
	OnMissedAttestation Action `json:"on_missed_attestation"`
}

// Action is what ebb does with a task when its sandbox exits or does not attest itself again.
type Action string

// Actions.
const (
	ActionNothing  Action = "nothing"
	ActionPause    Action = "pause"    // nothing is issued until the runner resumes the task
	ActionComplete Action = "complete" // the task ends
)

// EvidenceQuery is the body of POST /v1/attestors/{name}/explain.
type EvidenceQuery struct {
	// Evidence is the document.
	Evidence string `json:"evidence"`
	// TaskID asks whether the evidence would be accepted for this task.
	TaskID string `json:"task_id,omitempty"`
	// X5T is the SHA-256 of the sandbox's certificate, base64url (RFC 8705 section 3.1).
	X5T string `json:"x5t,omitempty"`
	// JWK is the public key of the sandbox (RFC 7517).
	JWK json.RawMessage `json:"jwk,omitempty"`
}

// EvidenceVerdict is how an attestor judges evidence.
type EvidenceVerdict string

// Verdicts on evidence.
const (
	EvidenceAccepted EvidenceVerdict = "accepted"
	EvidenceRefused  EvidenceVerdict = "refused"
	EvidenceUnjudged EvidenceVerdict = "unjudged" // something that is needed for the judgement is down
)

// EvidenceExplanation is how an attestor judges evidence, step by step. It enrols no sandbox.
type EvidenceExplanation struct {
	// Attestor is the name of the attestor.
	Attestor string `json:"attestor"`
	// Verdict is the judgement.
	Verdict EvidenceVerdict `json:"verdict"`
	// Reason is the reason of a refusal, one of a fixed set.
	Reason string `json:"reason,omitempty"`
	// Why is a sentence for people.
	Why string `json:"why,omitempty"`
	// Steps are the checks that passed, in their order.
	Steps []EvidenceStep `json:"steps"`
	// Identity is what accepted evidence says.
	Identity *EvidenceIdentity `json:"identity,omitempty"`
	// Task says whether the evidence would be accepted for EvidenceQuery.TaskID.
	Task *EvidenceTask `json:"task,omitempty"`
}

// EvidenceStep is one check that passed.
type EvidenceStep struct {
	// Check names the check.
	Check string `json:"check"`
	// Found is what the evidence contains.
	Found string `json:"found,omitempty"`
}

// EvidenceIdentity is what accepted evidence says.
type EvidenceIdentity struct {
	// Subject is the attestor's name for the sandbox.
	Subject string `json:"subject"`
	// Class is the class of the evidence.
	Class string `json:"class"`
	// Proves is a sentence about the means by which the class proves it.
	Proves string `json:"proves"`
	// Selectors are the selectors of the sandbox.
	Selectors map[string]string `json:"selectors"`
	// NotAfter is when every credential that is issued on it has ended; zero = the evidence does not say.
	NotAfter time.Time `json:"not_after,omitzero"`
	// Key is the key that the evidence is bound to; "" = the first key that uses it.
	Key string `json:"key,omitempty"`
}

// EvidenceTask says whether evidence would be accepted for a task.
type EvidenceTask struct {
	// ID is the task.
	ID string `json:"id"`
	// Accepted is the answer.
	Accepted bool `json:"accepted"`
	// Why is a sentence for people.
	Why string `json:"why,omitempty"`
	// Selectors compares the registered selectors with those of the evidence.
	Selectors []EvidenceSelector `json:"selectors"`
}

// EvidenceSelector compares one selector that the runner registered with the evidence.
type EvidenceSelector struct {
	// Name is the name of the selector.
	Name string `json:"name"`
	// Registered is the value that the runner registered.
	Registered string `json:"registered"`
	// Shown is the value in the evidence.
	Shown string `json:"shown"`
	// Equal says that the two are equal.
	Equal bool `json:"equal"`
}
