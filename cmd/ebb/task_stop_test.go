package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// TestTaskCompleteWithoutDatabase: `ebb task complete`, which logs in anew each
// time, completes a task while the database is unavailable, and reports the
// progress.
//
//ebb:invariant I6 A runner without an access token can complete its task while a store is unreachable, frozen, locked or full
func TestTaskCompleteWithoutDatabase(t *testing.T) {
	t.Parallel()
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.end() }() // the error is that its database is gone
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: e.url}, ClientID: "runner", Key: keys["runner"]})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := o.Tasks.Open(t.Context(), wire.TaskSpec{Name: "t", Kind: "k", TTL: 3600, Ceiling: "local:**:*", Expect: wire.Expect{Attestor: "enroll"}})
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "runner.key")
	if err := keyfile.Write(key, keyfile.File{ClientID: "runner", Key: keys["runner"]}); err != nil {
		t.Fatal(err)
	}
	_ = e.node.store.Close()
	for _, args := range [][]string{{"task", "complete", task.ID}, {"task", "stop", task.ID, "--reason", "leaked"}} {
		var said, failed strings.Builder
		c := &cli{stdin: strings.NewReader(""), stdout: &said, stderr: &failed, format: out.Table}
		code := c.run(t.Context(), append(args, "--url", e.url, "--key", key))
		if code != exitUnavailable || !strings.Contains(failed.String(), "refused here") || !strings.Contains(failed.String(), "Live store: done. Database: pending.") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, said.String(), failed.String())
		}
	}
	if _, err := e.node.broker.Beat(t.Context(), people[0].Principal, task.ID); broker.AsError(err).Kind != broker.Conflict && broker.AsError(err).Kind != broker.NotFound {
		t.Errorf("a heartbeat of the task: %v", err)
	}
}
