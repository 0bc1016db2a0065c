package ssh

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
)

const (
	// fileRound is the interval at which the file is compared with the database: other replicas
	// revoke, and other processes may change the file.
	fileRound = 5 * time.Second
	// keyRound is how often the CA's keys are looked after.
	keyRound = time.Minute
)

// Run maintains the KRL file, at once and then regularly, and the CA's keys, until ctx is done. It
// logs failures and tries again. A published list stays until its successor is written.
func (d *Driver) Run(ctx context.Context) error {
	files, keys := time.NewTicker(fileRound), time.NewTicker(keyRound)
	defer files.Stop()
	defer keys.Stop()
	d.keepFile(ctx)
	watch := clock.New(d.cfg.Now, nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-files.C:
			d.keepFile(ctx)
		case <-keys.C:
			if err := d.ca.maintain(watch.Read().Sure); err != nil {
				d.cfg.Logger.ErrorContext(ctx, "the keys of an SSH CA could not be looked after; the ones in force stay", "provider", d.cfg.Name, "error", err)
			}
		}
	}
}

func (d *Driver) keepFile(ctx context.Context) {
	if d.file == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fileRound)
	defer cancel()
	if err := d.file.push(ctx, d.list); err != nil && ctx.Err() == nil {
		d.cfg.Logger.ErrorContext(ctx, "the SSH revocation list could not be written; hosts go on with what they have", "provider", d.cfg.Name, "error", err)
	}
}
