package box

import (
	"fmt"
	"maps"
	"os"
)

// Etc returns the sandbox's own files of /etc, which contain neither users nor
// hosts of the machine.
func Etc(s Spec) map[string][]byte {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if s.User != nil {
		uid, gid = s.User.UID, s.User.GID
	}
	hosts := []byte("127.0.0.1 localhost " + User + "\n::1 localhost\n")
	for _, d := range s.Direct {
		hosts = fmt.Appendf(hosts, "%s %s\n", d.Address, d.Name)
	}
	files := map[string][]byte{
		"/etc/passwd":        fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%[1]s:x:%[2]d:%[3]d:%[1]s:%[4]s:/bin/sh\n", User, uid, gid, Home),
		"/etc/group":         fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", User, gid),
		"/etc/hosts":         hosts,
		"/etc/resolv.conf":   []byte("# There is no name server: the proxy resolves names.\n"),
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"),
	}
	maps.Copy(files, s.Files)
	return files
}
