//go:build !linux

package shim

import (
	"errors"
	"os"
)

// Config configures Run.
type Config struct {
	Argv             []string
	Status, Release  *os.File
	TTY              bool
	Ports            map[int]string
	Direct           map[string]string
	Processes, Files uint64
}

// Parse fails: sandboxes exist on Linux only.
func Parse([]string) (Config, error) { return Config{}, errors.New("a sandbox needs Linux") }

// Run fails: sandboxes exist on Linux only.
func Run(Config) (int, error) { return 0, errors.New("a sandbox needs Linux") }
