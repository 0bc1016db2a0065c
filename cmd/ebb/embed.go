package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/egress"
	"ebb/cmd/ebb/internal/config"
)

// embedding describes an ebb that lives as long as one command.
type embedding struct {
	Environ   []string // EBB_ variables of the configuration, for real stores
	People    []broker.PrincipalConfig
	Providers []config.Provider
	Limits    broker.Limits
	Policy    fs.FS            // nil = the starter policy
	Now       func() time.Time // nil = time.Now
	Log       *slog.Logger     // nil = silent
	Resolver  egress.Resolver  // of names that sandboxes go to; nil = the machine's
}

// embedded is a running one.
type embedded struct {
	node *node
	url  string
	dir  string
	stop context.CancelFunc
	done chan error
}

// embed starts an ebb on a free port of loopback, with its data in a temporary
// directory.
func embed(ctx context.Context, b embedding) (_ *embedded, err error) {
	dir, err := os.MkdirTemp("", "ebb-") // mode 0700
	if err != nil {
		return nil, fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	e := &embedded{dir: dir, done: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	cfg, err := config.Load(config.Source{Environ: append([]string{"EBB_LISTEN=127.0.0.1:0", "EBB_DATA_DIR=" + filepath.Join(dir, "data")}, b.Environ...)})
	if err != nil {
		return nil, err
	}
	cfg.Providers, cfg.Limits = b.Providers, b.Limits
	cfg.Limits.MaxTaskTTL = max(cfg.Limits.MaxTaskTTL, time.Hour)
	if b.Log == nil {
		b.Log = quiet()
	}
	e.node, err = wire(ctx, settings{Config: cfg, Log: b.Log, Principals: b.People, Policy: b.Policy, Now: b.Now, Resolver: b.Resolver})
	if err != nil {
		return nil, err
	}
	e.url = e.node.url
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() { e.done <- e.node.serve(running, nil) }()
	return e, nil
}

// end stops it and removes what it wrote.
func (e *embedded) end() error {
	e.stop()
	return errors.Join(<-e.done, os.RemoveAll(e.dir))
}

// publicKeys verify its record.
func (e *embedded) publicKeys() (jose.KeySet, error) {
	return jose.ParseJWKS(e.node.broker.JWKS())
}
