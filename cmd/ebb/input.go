package main

import (
	"os"
	"strings"

	"ebb/scopes"
)

// parseScopes reads the values of --scope: each may hold several.
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
