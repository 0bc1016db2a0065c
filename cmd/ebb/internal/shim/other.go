//go:build !linux

package shim

import (
	"errors"
	"os"
)

// Config is what Run does.
type Config struct {
	Argv             []string
	Status, Release  *os.File
	TTY              bool
	Ports            map[int]string
	Direct           map[string]string
	Processes, Files uint64
}

// Parse fails: there are boxes on Linux only.
func Parse([]string) (Config, error) { return Config{}, errors.New("a box needs Linux") }

// Run fails: there are boxes on Linux only.
func Run(Config) (int, error) { return 0, errors.New("the first process of a box needs Linux") }
