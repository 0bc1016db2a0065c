//go:build linux

package shim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/seccomp"
)

// overkill is the oom_score_adj of a sandbox: the kernel's out-of-memory killer
// kills it before other processes of the user.
const overkill = "500"

// confine sets limits that all processes of the sandbox inherit. A limit that
// the kernel does not permit is skipped: the isolation does not depend on it.
func (c Config) confine() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(overkill), 0); err != nil && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("oom_score_adj: %w", err)
	}
	for _, l := range []struct {
		what int
		to   uint64
	}{{unix.RLIMIT_NPROC, cmp.Or(c.Processes, math.MaxUint64)}, {unix.RLIMIT_NOFILE, c.Files}, {unix.RLIMIT_CORE, 0}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("getrlimit %d: %w", l.what, err)
		}
		to := min(l.to, now.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: to, Max: to}); err != nil {
			return fmt.Errorf("setrlimit %d: %w", l.what, err)
		}
	}
	if !c.Readable { // by other processes of the sandbox, which could otherwise trace this one
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("prctl: %w", err)
		}
	}
	if c.Filter {
		return seccomp.Install()
	}
	return nil
}
