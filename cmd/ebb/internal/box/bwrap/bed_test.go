//go:build linux

package bwrap_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/boxtest"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/bwrap"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/shim"
)

// TestMain is also the shim of the sandboxes, the hostile program in some, and
// a runner to be killed.
func TestMain(m *testing.M) {
	os.Exit(boxtest.Main(m, func(args []string) (int, error) {
		c, err := shim.Parse(args)
		if err != nil {
			return 2, err
		}
		return shim.Run(c)
	}, func(args []string) { runner(args[0]) }))
}

// bed starts the sandboxes of one test.
type bed struct {
	*boxtest.Bed
	kind bwrap.Kind
}

func newBed(t *testing.T) *bed {
	t.Helper()
	kind := bwrap.Kind{Program: counterpart.Need(t, "EBB_TEST_BWRAP"), Self: boxtest.Self(t)}
	return &bed{boxtest.New(t, kind), kind}
}

// runner starts a sandbox as ebb run does, and waits to be killed with it.
func runner(word string) {
	s := box.Spec{Argv: []string{"sh", "-c", "setsid sleep 600." + word + " & (setsid nohup sleep 601." + word + " &) ; echo up; sleep 602." + word}, Env: []string{"PATH=" + box.Search}, Work: os.Args[3], Stdout: os.Stdout, Stderr: os.Stderr}
	if len(os.Args) > 4 {
		uid, _ := strconv.ParseUint(os.Args[4], 10, 32)
		s.User = &box.Owner{UID: uint32(uid), GID: uint32(uid)}
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
	panic(fmt.Sprint("the box ended before its runner: ", err))
}
