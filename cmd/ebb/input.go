package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ebb-broker/ebb/scopes"
)

// parseScopes parses the values of --scope. Each may contain several scopes.
func parseScopes(list []string) (scopes.Set, error) {
	set, err := scopes.ParseSet(strings.Join(list, " "))
	if err != nil {
		return scopes.Set{}, usage(err.Error(), "write provider:resource:action, such as orders:eu/42:read")
	}
	return set, nil
}

// openFile opens a file that the user named.
func openFile(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(err.Error(), "name a readable file")
	}
	return f, nil
}

// maxInput is the maximum size in bytes of a token, query or key.
const maxInput = 64 << 10

// input reads a short text from the named file, or from standard input if name
// is -, and trims white space.
func (c *cli) input(name string, limit int64) (string, error) {
	var in io.Reader = c.stdin
	if name != "-" {
		f, err := openFile(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return "", fail(err.Error(), "name a readable file")
	}
	if int64(len(text)) > limit {
		return "", usage(fmt.Sprintf("the input is larger than %d KiB", limit>>10), "name the right file")
	}
	return strings.TrimSpace(string(text)), nil
}
