package main

import (
	"os/exec"
	"strconv"

	"ebb/cmd/ebb/internal/box/bwrap"
	"ebb/cmd/ebb/internal/box/docker"
	"ebb/cmd/ebb/internal/box/none"
)

// kindOf chooses what makes the box.
func (c *cli) kindOf(flags *runFlags, in *boxed) error {
	kind := flags.kind
	if kind == "auto" {
		kind = "bwrap"
		if _, err := exec.LookPath(kind); err != nil && flags.image != "" {
			kind = "docker"
		} else if flags.image != "" {
			c.sayf("ebb: the box is made by bubblewrap, of this machine's programs; --box docker makes it of --image\n")
		}
	} else if flags.image != "" && kind != "docker" {
		return usage("--image is for a box of Docker's", "leave it out, or choose --box docker")
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
			return usage("--image: "+err.Error(), "name one that the daemon has, best by its digest: --image NAME@sha256:...")
		}
		in.kind, in.image = docker.Kind{Image: flags.image}, flags.image
		return nil
	}
	return usage("--box "+strconv.Quote(flags.kind)+" is no kind of box", "choose auto, bwrap, docker or none")
}

// noneOf refuses flags that only a box could keep.
func (c *cli) noneOf(flags *runFlags) error {
	if len(flags.read)+len(flags.env)+len(flags.credentials)+len(flags.git)+len(flags.hosts)+len(flags.ssh) > 0 || flags.user != "" || flags.aws != "" || flags.pg != "" || flags.memory != "" || flags.cpus != 0 || flags.pids != defaultPIDs {
		return usage("--read, --env, --credential, --git, --ssh, --aws, --host, --pg, --user, --memory, --cpus and --pids are for a box", "leave them out with --box none: CMD sees what you see")
	}
	return nil
}
