//go:build linux

package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/handover"
)

// ordered receives the order of the runner over its socket. This process then
// has the streams and environment of the command, and ends with the connection.
func ordered(socket string) (Config, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return Config{}, fmt.Errorf("shim: connect to the runner: %w", err)
	}
	o, files, err := handover.Receive(conn)
	if err != nil {
		return Config{}, fmt.Errorf("shim: %w", err)
	}
	if len(o.Argv) == 0 || o.Files == 0 {
		return Config{}, errors.New("shim: the order has no command or no limits")
	}
	for i, f := range files[:3] {
		if err := unix.Dup3(int(f.Fd()), i, 0); err != nil {
			return Config{}, fmt.Errorf("shim: dup3: %w", err)
		}
		_ = f.Close()
	}
	if err := environment(o.Env); err != nil {
		return Config{}, fmt.Errorf("shim: %w", err)
	}
	return Config{
		Argv: o.Argv, Status: files[3], Release: files[4], TTY: o.TTY, Ports: o.Ports, Direct: o.Direct, Files: o.Files,
		Readable: o.Readable, Filter: true, Runner: conn,
	}, nil
}

// environment replaces the environment that the image has set.
func environment(lines []string) error {
	os.Clearenv()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}
