//go:build linux

package docker

import (
	"errors"
	"os"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/handover"
)

// lent are the descriptors for the shim, and those of them to close in this
// process.
type lent struct {
	descriptors handover.Descriptors
	ours        []*os.File
}

// lend opens the descriptors. status is the runner's end of the shim's reports,
// release that of the byte for which the shim waits.
func lend(s box.Spec) (status *os.File, d *lent, release *os.File, err error) {
	d = &lent{descriptors: handover.Descriptors{s.Stdin, s.Stdout, s.Stderr}}
	status, statusW, err1 := os.Pipe()
	releaseR, release, err2 := os.Pipe()
	null, err3 := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	d.ours = []*os.File{statusW, releaseR, null}
	if err := errors.Join(err1, err2, err3); err != nil {
		d.ours = append(d.ours, status, release)
		d.close()
		return nil, nil, nil, err
	}
	for i, f := range d.descriptors[:3] {
		if f == nil {
			d.descriptors[i] = null
		}
	}
	d.descriptors[3], d.descriptors[4] = statusW, releaseR
	return status, d, release, nil
}

// close closes the lent descriptors. It may be called again.
func (d *lent) close() {
	for _, f := range d.ours {
		_ = f.Close() // Close of nil returns an error and does nothing
	}
}
