//go:build linux

package docker

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/place"
)

// furnish returns the paths that are mounted into the sandbox, because the
// daemon accepts only paths, and opens each: verify checks that the opened file
// is the mounted one.
func furnish(m place.Mounts, s box.Spec) (binds []bind, all place.Mounts, err error) {
	all = slices.Clone(m)
	files := filepath.Join(s.Keep, "files")
	if err := os.Mkdir(files, 0o711); err != nil {
		return nil, nil, err
	}
	etc := box.Etc(s)
	for i, path := range slices.Sorted(maps.Keys(etc)) {
		from := filepath.Join(files, strconv.Itoa(i))
		if err := os.WriteFile(from, etc[path], 0o444); err != nil {
			return nil, nil, err
		}
		f, err := os.Open(from)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, place.Mount{From: f, To: path})
	}
	for _, one := range all {
		from, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(one.From.Fd())))
		if err != nil {
			return nil, nil, err
		}
		binds = append(binds, bind{from: from, to: one.To, write: one.Write})
	}
	return append(binds, bind{from: filepath.Join(s.Keep, "shim"), to: controlDir}), all, nil
}

// listen creates the socket for the shim. Only this sandbox has it, and it is
// removed once the shim has connected.
func listen(keep string) (*net.UnixListener, error) {
	dir := filepath.Join(keep, "shim")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the shim of the sandbox: %w", err)
	}
	if err := os.Chmod(filepath.Join(dir, "socket"), 0o666); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
