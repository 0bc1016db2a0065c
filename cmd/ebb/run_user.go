package main

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"ebb/cmd/ebb/internal/box"
)

// ownerOf is who a box is to the machine: this process's user, and never root.
func ownerOf(flag, work string) (*box.Owner, error) {
	if os.Geteuid() != 0 {
		if flag != "" {
			return nil, usage("--user is for root", "leave it out: the box is you")
		}
		return nil, nil
	}
	if flag != "" {
		return parseOwner(flag)
	}
	info, err := os.Stat(work)
	if err != nil {
		return nil, usage(err.Error(), "name an existing directory with --work")
	}
	st, is := info.Sys().(*syscall.Stat_t)
	if !is || st.Uid == 0 {
		return nil, usage("the work directory belongs to root, and no box runs as root", "name with --user who may write to "+work+", and give it to them, or choose another --work")
	}
	return &box.Owner{UID: st.Uid, GID: st.Gid}, nil
}

func parseOwner(flag string) (*box.Owner, error) {
	name, group, two := strings.Cut(flag, ":")
	if u, err := user.Lookup(name); err == nil && !two {
		name, group = u.Uid, u.Gid
	}
	uid, err1 := strconv.ParseUint(name, 10, 32)
	gid, err2 := uid, error(nil)
	if group != "" {
		gid, err2 = strconv.ParseUint(group, 10, 32)
	}
	if err1 != nil || err2 != nil || uid == 0 || gid == 0 {
		return nil, usage("--user "+strconv.Quote(flag)+" is nobody that a box may be", "write a number, as in 1000 or 1000:1000, or the name of a user who is not root")
	}
	return &box.Owner{UID: uint32(uid), GID: uint32(gid)}, nil
}
