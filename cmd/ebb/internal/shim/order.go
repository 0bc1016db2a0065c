//go:build linux

package shim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/handover"
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

// Parse parses the command line after the word shim.
func Parse(args []string) (Config, error) {
	c := Config{Ports: map[int]string{}, Direct: map[string]string{}}
	f := flag.NewFlagSet("shim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	control := f.String("control", "", "socket of the runner, which sends everything else")
	status := f.Int("status-fd", 0, "descriptor to report on")
	release := f.Int("release-fd", 0, "descriptor to wait on")
	f.BoolVar(&c.Watchdog, "watchdog", false, "run the watchdog of a sandbox instead")
	f.Uint64Var(&c.Processes, "processes", 0, "maximum number of processes and threads")
	f.Uint64Var(&c.Files, "files", 0, "maximum number of open files of each process")
	f.BoolVar(&c.TTY, "tty", false, "standard input is a terminal of the sandbox alone")
	f.Func("port", "port of loopback and its socket, PORT=SOCKET", func(s string) error {
		number, socket, _ := strings.Cut(s, "=")
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || socket == "" {
			return errors.New("not PORT=SOCKET")
		}
		c.Ports[int(port)] = socket
		return nil
	})
	f.Func("direct", "address of loopback and its host, ADDRESS:PORT=HOST:PORT", func(s string) error {
		address, host, _ := strings.Cut(s, "=")
		if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() || host == "" {
			return errors.New("not ADDRESS:PORT=HOST:PORT")
		}
		c.Direct[address] = host
		return nil
	})
	if err := f.Parse(args); err != nil {
		return c, fmt.Errorf("shim: %w", err)
	}
	if c.Watchdog {
		return c, nil
	}
	if *control != "" {
		return ordered(*control)
	}
	c.Argv = f.Args()
	if len(c.Argv) == 0 || c.Processes == 0 || c.Files == 0 {
		return c, errors.New("shim: a command, --processes and --files are required")
	}
	// If a user starts the command directly, the descriptors are missing.
	for _, fd := range []int{*status, *release} {
		if fd < 3 || syscall.Fstat(fd, new(syscall.Stat_t)) != nil {
			return c, errors.New("shim: --status-fd or --release-fd is not open")
		}
	}
	c.Status, c.Release = os.NewFile(uintptr(*status), "status"), os.NewFile(uintptr(*release), "release")
	return c, nil
}
