package broker

import (
	"fmt"
	"slices"
	"time"
)

// EnrollName is the name under which the enroll attestor must be configured. It is built into
// the broker, and there is one.
const EnrollName = "enroll"

// Action is ebb's action when a sandbox exits (on_sandbox_exit) or misses its re-attestation
// deadline.
type Action string

// Actions. A zero Action means nothing at a missed re-attestation deadline, because minting has
// stopped by then, and complete at a sandbox exit.
const (
	ActionNothing  Action = "nothing"
	ActionPause    Action = "pause"    // no token is issued until the task's runner resumes it; live tokens stay
	ActionComplete Action = "complete" // the task ends, and every credential with it
)

// Liveness configures how long the evidence of one attestor is valid, and the actions
// afterwards.
type Liveness struct {
	// OnSandboxExit is the action when the attestor sees a sandbox exit, or when its control
	// connection ends (Hold); "" = complete.
	OnSandboxExit Action
	// Reattest is how long a sandbox may go on without fresh evidence; 0 = as long as its
	// evidence is valid. After it no token is issued until the sandbox enrols again with the
	// same key.
	Reattest time.Duration
	// OnMissedAttestation is the action when the sandbox has not enrolled again in time; "" = nothing more.
	OnMissedAttestation Action
}

// MinReattest is the shortest re-attestation interval that leaves a sandbox time to enrol
// again.
const MinReattest = 10 * time.Second

// Check returns an error for a value that the attestor name cannot have.
func (l Liveness) Check(name string) error {
	switch {
	case !slices.Contains([]Action{"", ActionNothing, ActionPause, ActionComplete}, l.OnSandboxExit):
		return fmt.Errorf("attestor %s: on_sandbox_exit must be complete, pause or nothing", name)
	case !slices.Contains([]Action{"", ActionNothing, ActionComplete}, l.OnMissedAttestation):
		return fmt.Errorf("attestor %s: on_missed_attestation must be complete or nothing", name)
	case l.OnMissedAttestation == ActionComplete && l.Reattest == 0:
		return fmt.Errorf("attestor %s: on_missed_attestation complete needs reattest: set reattest to the interval", name)
	case l.Reattest < 0 || l.Reattest > 0 && l.Reattest < MinReattest:
		return fmt.Errorf("attestor %s: reattest must be at least %s", name, MinReattest)
	case l.Reattest > 0 && name == EnrollName:
		return fmt.Errorf("attestor %s: an enrolment ticket can be used once, so that its sandbox cannot attest again: leave out reattest", name)
	}
	return nil
}
