package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/physical/raft"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// storage returns the storage of the core's data and Vault's name for it.
func storage(o options, log hclog.Logger) (store physical.Backend, kind string, err error) {
	switch {
	case o.raft:
		if err := os.MkdirAll(filepath.Join(o.dir, "raft"), 0o700); err != nil {
			return nil, "", err
		}
		store, err = raft.NewRaftBackend(map[string]string{
			"path": filepath.Join(o.dir, "raft"), "node_id": "one", "performance_multiplier": "1",
		}, log.Named("raft"))
		return store, "raft", err
	case o.dir == "":
		store, err = inmem.NewInmem(nil, log)
		return store, "inmem", err
	}
	store, err = file.NewFileBackend(map[string]string{"path": filepath.Join(o.dir, "data")}, log)
	return store, "file", err
}

// open unseals the core. A new core is initialised first and gets the root token asked for and a KV version 2 mount at secret/.
func open(ctx context.Context, core *vault.Core, o options) error {
	keyFile := filepath.Join(o.dir, "unseal.key")
	known, err := core.Initialized(ctx)
	if err != nil {
		return err
	}
	if known {
		text, err := os.ReadFile(keyFile)
		if err != nil {
			return err
		}
		key, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		return unseal(core, key, o.raft)
	}
	seal := func() *vault.SealConfig { return &vault.SealConfig{SecretShares: 1, SecretThreshold: 1} }
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal(), RecoveryConfig: seal()})
	if err != nil {
		return err
	}
	if o.dir != "" {
		if err := os.WriteFile(keyFile, []byte(hex.EncodeToString(made.SecretShares[0])+"\n"), 0o600); err != nil {
			return err
		}
	}
	if err := unseal(core, made.SecretShares[0], o.raft); err != nil {
		return err
	}
	for _, step := range []struct {
		path string
		data map[string]any
	}{
		{"auth/token/create", map[string]any{"id": o.root, "policies": []string{"root"}, "no_parent": true, "no_default_policy": true}},
		{"sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}},
		{"auth/token/revoke-self", nil},
	} {
		resp, err := core.HandleRequest(ctx, &logical.Request{
			Operation: logical.UpdateOperation, ClientToken: made.RootToken, Path: step.path, Data: step.data,
		})
		if err == nil && resp != nil && resp.IsError() {
			err = resp.Error()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.path, err)
		}
	}
	return nil
}

// unseal returns when the core can be written to: one with a cluster leads it first.
func unseal(core *vault.Core, key []byte, cluster bool) error {
	ok, err := core.Unseal(key)
	if err == nil && !ok {
		err = errors.New("still sealed after the only key share")
	}
	if err != nil || !cluster {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if active, _, _, err := core.Leader(); err == nil && active {
			return nil
		}
	}
	return errors.New("the node did not become active")
}
