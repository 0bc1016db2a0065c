//go:build linux

package bwrap

import (
	"fmt"
	"maps"
	"os"

	"ebb/cmd/ebb/internal/box"
)

// etc are files of a box's own: of the machine's it learns neither users nor names.
func etc(s box.Spec) map[string][]byte {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if s.User != nil {
		uid, gid = s.User.UID, s.User.GID
	}
	hosts := []byte("127.0.0.1 localhost " + box.User + "\n::1 localhost\n")
	for _, d := range s.Direct {
		hosts = fmt.Appendf(hosts, "%s %s\n", d.Address, d.Name)
	}
	files := map[string][]byte{
		"/etc/passwd":        fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%[1]s:x:%[2]d:%[3]d:%[1]s:%[4]s:/bin/sh\n", box.User, uid, gid, box.Home),
		"/etc/group":         fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", box.User, gid),
		"/etc/hosts":         hosts,
		"/etc/resolv.conf":   []byte("# There is no name server: names are for the proxy.\n"),
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"),
	}
	maps.Copy(files, s.Files)
	return files
}

// shared are parts of the machine's /etc that programs need to start at all, and that say
// nothing of who uses the machine.
var shared = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/protocols",
	"/etc/services", "/etc/magic", "/etc/terminfo", "/etc/python3", "/etc/perl", "/etc/ssl/openssl.cnf", "/etc/crypto-policies",
}
