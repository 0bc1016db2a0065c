package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// embedding configures an ebb that runs inside one command.
type embedding struct {
	Environ   []string // EBB_ variables of the configuration, for real stores
	People    []broker.PrincipalConfig
	Providers []config.Provider
	Limits    broker.Limits
	Policy    fs.FS            // nil = the starter policy
	Now       func() time.Time // nil = time.Now
	Log       *slog.Logger     // nil = silent
	Resolver  egress.Resolver  // resolves upstreams of sandboxes; nil = the machine's resolver
}

// embedded is an ebb that runs inside one command.
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
	e.node, err = assemble(ctx, settings{Config: cfg, Log: b.Log, Principals: b.People, Policy: b.Policy, Now: b.Now, Resolver: b.Resolver})
	if err != nil {
		return nil, err
	}
	e.url = e.node.url
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() { e.done <- e.node.serve(running, nil) }()
	return e, nil
}

// end stops the ebb and removes its directory.
func (e *embedded) end() error {
	e.stop()
	return errors.Join(<-e.done, os.RemoveAll(e.dir))
}

// publicKeys returns the keys that verify the audit log of this ebb.
func (e *embedded) publicKeys() (jose.KeySet, error) {
	return jose.ParseJWKS(e.node.broker.JWKS())
}
