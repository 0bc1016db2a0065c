package attest

import (
	"context"
	"errors"
	"time"
)

// Watcher is an Attestor that can tell that a sandbox has died.
type Watcher interface {
	Attestor
	// Watch waits until the sandbox of id is gone. id is what Attest made of its
	// evidence, as the record has it: Attestor, Subject, Class and Selectors alone,
	// perhaps from before a restart, perhaps made by another replica.
	//
	// It returns how the sandbox ended; or ErrElsewhere when it cannot be seen from
	// here; or ctx's error; or another when it cannot tell now: then it is called
	// again after a while, and nobody is taken for dead.
	Watch(ctx context.Context, id Identity) (Death, error)
}

// Death is the end of a sandbox.
type Death struct {
	// At is when it died, as far as can be told; zero: found just now.
	At time.Time
	// How is a fixed word of the kind, fit for a metrics label and the record:
	// "process_exited", "pod_deleted".
	How string
}

// ErrElsewhere means that a sandbox lives where this process does not see it.
var ErrElsewhere = errors.New("attest: the sandbox cannot be watched from here")
