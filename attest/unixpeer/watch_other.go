//go:build !linux

package unixpeer

import (
	"context"

	"ebb/attest"
)

func (a *Attestor) watchProcess(context.Context, int, uint64) (attest.Death, error) {
	return attest.Death{}, attest.ErrElsewhere
}

func (a *Attestor) watchCgroup(context.Context, string, uint64) (attest.Death, error) {
	return attest.Death{}, attest.ErrElsewhere
}
