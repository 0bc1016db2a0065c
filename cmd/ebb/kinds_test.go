package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	attestors "github.com/ebb-broker/ebb/attest/all"
	channels "github.com/ebb-broker/ebb/broker/notify/all"
	providers "github.com/ebb-broker/ebb/broker/provider/all"
	wrappers "github.com/ebb-broker/ebb/broker/seal/all"
)

// TestKindTables compares every table of kinds with the folders beside it: a
// kind that is missing in its table would be built and tested, but never
// usable.
func TestKindTables(t *testing.T) {
	t.Parallel()
	for contract, of := range map[string]struct {
		kinds []string
		tools []string // folders that are not kinds, besides all and the suites
	}{
		"attest":          {kinds: attestors.Kinds(), tools: []string{"clock", "dpop", "fetch", "jose", "lazyregexp", "options"}},
		"broker/notify":   {kinds: channels.Kinds()},
		"broker/provider": {kinds: providers.Kinds()},
		"broker/seal":     {kinds: wrappers.Kinds()},
	} {
		dirs, err := os.ReadDir(filepath.Join("..", "..", filepath.FromSlash(contract)))
		if err != nil {
			t.Fatal(err)
		}
		var folders []string
		for _, d := range dirs {
			if n := d.Name(); d.IsDir() && n != "all" && !strings.HasSuffix(n, "test") && !slices.Contains(of.tools, n) {
				folders = append(folders, n)
			}
		}
		if !slices.Equal(folders, of.kinds) {
			t.Errorf("%s has the folders %v, and %s/all the kinds %v", contract, folders, contract, of.kinds)
		}
	}
}
