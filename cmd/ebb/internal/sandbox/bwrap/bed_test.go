//go:build linux

package bwrap_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/bwrap"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/shim"
)

// TestMain is also the shim of the sandboxes, the hostile program in some, and
// a runner to be killed.
func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, func(args []string) (int, error) {
		c, err := shim.Parse(args)
		if err != nil {
			return 2, err
		}
		return shim.Run(c)
	}, func(args []string) { runner(args[0]) }))
}

// bed starts the sandboxes of one test.
type bed struct {
	*sandboxtest.Bed
	kind bwrap.Kind
}

func newBed(t *testing.T) *bed {
	t.Helper()
	kind := bwrap.Kind{Program: counterpart.Need(t, "EBB_TEST_BWRAP"), Self: sandboxtest.Self(t)}
	return &bed{sandboxtest.New(t, kind), kind}
}

// runner starts a sandbox as ebb run does, and waits to be killed with it.
func runner(word string) {
	s := sandbox.Spec{Argv: []string{"sh", "-c", "setsid sleep 600." + word + " & (setsid nohup sleep 601." + word + " &) ; echo up; sleep 602." + word}, Env: []string{"PATH=" + sandbox.Search}, Work: os.Args[3], Stdout: os.Stdout, Stderr: os.Stderr}
	if len(os.Args) > 4 {
		uid, _ := strconv.ParseUint(os.Args[4], 10, 32)
		s.User = &sandbox.Owner{UID: uint32(uid), GID: uint32(uid)}
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	r, err := bwrap.Kind{Program: os.Getenv("EBB_TEST_BWRAP"), Self: self}.Start(s)
	if err != nil {
		panic(err)
	}
	_, err = r.Wait()
	panic(fmt.Sprint("the sandbox ended before its runner: ", err))
}
