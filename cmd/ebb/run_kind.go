package main

import (
	"os/exec"
	"strconv"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/bwrap"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/docker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/none"
)

// kindOf chooses the kind of the sandbox.
func (c runCommand) kindOf(flags *runFlags, in *boxed) error {
	kind := flags.kind
	if kind == "auto" {
		kind = "bwrap"
		if _, err := exec.LookPath(kind); err != nil && flags.image != "" {
			kind = "docker"
		} else if flags.image != "" {
			c.sayf("ebb: bubblewrap creates the sandbox with this machine's programs; use --box docker for --image\n")
		}
	} else if flags.image != "" && kind != "docker" {
		return usage("--image needs --box docker", "remove --image, or choose --box docker")
	}
	switch kind {
	case "none":
		in.kind, in.plain = none.Kind{}, true
		return c.noneOf(flags)
	case "bwrap":
		in.kind = bwrap.Kind{}
		return nil
	case "docker":
		if err := docker.CheckImage(flags.image); err != nil {
			return usage("--image: "+err.Error(), "name an image that the daemon has, preferably by its digest: --image NAME@sha256:...")
		}
		in.kind, in.image = docker.Kind{Image: flags.image}, flags.image
		return nil
	}
	return usage("--box "+strconv.Quote(flags.kind)+" is not a kind of sandbox", "choose auto, bwrap, docker or none")
}

// noneOf refuses flags that need a sandbox.
func (c runCommand) noneOf(flags *runFlags) error {
	if len(flags.read)+len(flags.env)+len(flags.credentials)+len(flags.git)+len(flags.hosts)+len(flags.ssh) > 0 || flags.user != "" || flags.aws != "" || flags.pg != "" || flags.memory != "" || flags.cpus != 0 || flags.pids != defaultPIDs {
		return usage("--read, --env, --credential, --git, --ssh, --aws, --host, --pg, --user, --memory, --cpus and --pids need a sandbox", "remove them: with --box none CMD has the access of this user")
	}
	return nil
}
