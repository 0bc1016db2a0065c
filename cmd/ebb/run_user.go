package main

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// ownerOf returns the user of a sandbox on the machine: nil for the user of
// this process, and never root.
func ownerOf(flag, work string) (*box.Owner, error) {
	if os.Geteuid() != 0 {
		if flag != "" {
			return nil, usage("--user is allowed for root only", "remove it: the sandbox runs as this user")
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
		return nil, usage("the work directory belongs to root, and no sandbox runs as root", "name another user with --user and make it the owner of "+work+", or choose another --work")
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
		return nil, usage("--user "+strconv.Quote(flag)+" is not a user of a sandbox", "write an ID such as 1000 or 1000:1000, or the name of a user other than root")
	}
	return &box.Owner{UID: uint32(uid), GID: uint32(gid)}, nil
}
