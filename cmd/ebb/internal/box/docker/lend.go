//go:build linux

package docker

import (
	"errors"
	"os"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/handover"
)

// lent is what the shim is handed, with what of it is to be closed here.
type lent struct {
	descriptors handover.Descriptors
	ours        []*os.File
}

// lend opens it. status and release are the runner's ends of what the shim says and waits for.
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

// close closes what is lent, and may be called again.
func (d *lent) close() {
	for _, f := range d.ours {
		_ = f.Close() // nil is no file, and that is all the error there is
	}
}
