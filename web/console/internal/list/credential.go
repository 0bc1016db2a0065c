package list

import (
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
)

// Credential is a lease with the texts that pages show for it.
type Credential struct {
	broker.Lease
	Now       time.Time
	Approvers []string // people who approved its request; nil on the page of one credential
}

// Word returns the visible name of the state.
func (l Credential) Word() string {
	switch l.State {
	case broker.LeaseLive:
		return "active"
	case broker.LeaseIntent:
		return "being issued"
	case broker.LeaseRevoking:
		if l.Unsure() {
			return "UNSURE"
		}
		return "revoking"
	}
	return string(l.State)
}

// Tone returns the CSS class of the state.
func (l Credential) Tone() string {
	switch l.State {
	case broker.LeaseLive:
		return "good"
	case broker.LeaseIntent:
		return "warn"
	case broker.LeaseRevoking, broker.LeaseUnconfirmed:
		if l.State == broker.LeaseUnconfirmed || l.Unsure() {
			return "bad"
		}
		return "warn"
	}
	return ""
}

// Unsure reports that at least one revocation attempt was made and none
// succeeded: the provider may still accept the credential.
func (l Credential) Unsure() bool {
	return l.State == broker.LeaseRevoking && l.Upstream != nil && l.Upstream.Attempts > 0
}

// Trouble returns the last revocation error with invisible characters escaped.
// The text may come from a third party.
func (l Credential) Trouble() string {
	if l.Upstream == nil || l.Upstream.LastError == "" {
		return ""
	}
	return agenttext.ShowLine(agenttext.From(l.Upstream.LastError), 600)
}

// Proof explains why the credential is considered dead at its provider.
func (l Credential) Proof() string {
	if l.Upstream == nil {
		return ""
	}
	return map[broker.Proof]string{
		broker.ProofProbed: "a probe after the revocation was refused", broker.ProofConfirmed: "the provider confirmed it", broker.ProofBound: "the provider accepted the revocation, and the maximum delay of its class has passed",
		broker.ProofExpired: "its expiry time has passed", broker.ProofNever: "the provider reports that it was never issued", broker.ProofForced: "not proved: an operator closed the pending revocation",
		broker.ProofNone: "not proved: the response that may have issued it was lost or withheld",
	}[l.Upstream.Proof]
}

// Own reports whether ebb itself issued the token. Such a token is dead as soon
// as ebb refuses it.
func (l Credential) Own() bool { return l.Upstream == nil }

// DeadAt returns the time by which the provider refused the credential. Zero
// means that this is not known.
func (l Credential) DeadAt() time.Time {
	switch {
	case l.Upstream != nil:
		return l.Upstream.DeadAt
	case l.State == broker.LeaseRevoked:
		return l.RevokedAt
	case l.State == broker.LeaseExpired:
		return l.ExpiresAt
	}
	return time.Time{}
}

// Why returns the cause of the revocation or expiry.
func (l Credential) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "its task was completed", broker.CauseStopped: "its task was stopped", broker.CauseDeadline: "the deadline of its task passed", broker.CauseHeartbeat: "the runner of its task sent no heartbeat in time",
		broker.CauseExited: "its sandbox exited", broker.CauseMissedAttestation: "its sandbox did not re-attest before the deadline", broker.CauseSuspicious: "an approver denied a request of its task as suspicious",
		broker.CauseParent: "the parent task ended", broker.CauseExpired: "it reached its expiry time",
	}[l.Cause]
}

// Left reports whether the credential is active and unexpired.
func (l Credential) Left() bool { return l.State == broker.LeaseLive && l.ExpiresAt.After(l.Now) }
