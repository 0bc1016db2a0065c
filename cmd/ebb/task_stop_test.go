package main

import (
	"errors"
	"path/filepath"
	"slices"
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

// TestStopRepeatedly: the call is repeated while it makes progress, each task is
// reported once, and an error keeps the outcomes before it.
func TestStopRepeatedly(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	page := func(more bool, tasks ...wire.StoppedTask) wire.OwnerStop {
		return wire.OwnerStop{Tasks: tasks, More: more}
	}
	ended := func(id string) wire.StoppedTask { return wire.StoppedTask{ID: id, Stopped: true} }
	open := func(id string) wire.StoppedTask { return wire.StoppedTask{ID: id, Error: "later"} }
	for name, c := range map[string]struct {
		pages []wire.OwnerStop
		err   error // after the pages
		calls int
		want  []wire.StoppedTask
		more  bool
	}{
		"one page":          {[]wire.OwnerStop{page(false, ended("a"), open("b"))}, nil, 1, []wire.StoppedTask{ended("a"), open("b")}, false},
		"progress":          {[]wire.OwnerStop{page(true, open("a"), ended("b")), page(false, ended("a"))}, nil, 2, []wire.StoppedTask{ended("a"), ended("b")}, false},
		"no progress":       {[]wire.OwnerStop{page(true, open("a"))}, nil, 1, []wire.StoppedTask{open("a")}, true},
		"nothing in time":   {[]wire.OwnerStop{page(true)}, nil, 1, []wire.StoppedTask{}, true},
		"an error at first": {nil, gone, 1, []wire.StoppedTask{}, true},
		"an error later":    {[]wire.OwnerStop{page(true, ended("a"))}, gone, 2, []wire.StoppedTask{ended("a")}, true},
	} {
		calls := 0
		all, err := stopRepeatedly("cy", func() (wire.OwnerStop, error) {
			calls++
			if calls > len(c.pages) {
				return wire.OwnerStop{}, c.err
			}
			return c.pages[calls-1], nil
		})
		if !errors.Is(err, c.err) || calls != c.calls || !slices.Equal(all.Tasks, c.want) || all.More != c.more || all.Owner != "cy" {
			t.Errorf("%s: %d calls, %+v, %v", name, calls, all, err)
		}
	}
}
