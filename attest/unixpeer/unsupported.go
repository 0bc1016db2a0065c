//go:build !linux

package unixpeer

import (
	"context"
	"errors"

	"github.com/ebb-broker/ebb/attest"
)

var errSystem = errors.New("only Linux identifies the process at the other end of a unix socket reliably; run ebb on Linux for this attestor")

func exited(int) (bool, error) { return false, errSystem }

func readFacts(string, int, int) (facts, error) { return facts{}, errSystem }

func ownFacts(string) (facts, string, string) { return facts{}, "", "" }

func (a *Attestor) initProcess(int, uint64) (int, uint64, error) { return 0, 0, errSystem }

func (a *Attestor) cgroupID(cgroup, string) uint64 { return 0 }

func (a *Attestor) watchProcess(context.Context, int, uint64) (attest.Exit, error) {
	return attest.Exit{}, attest.ErrElsewhere
}

func (a *Attestor) watchCgroup(context.Context, string, uint64) (attest.Exit, error) {
	return attest.Exit{}, attest.ErrElsewhere
}
