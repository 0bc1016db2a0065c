package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	attestors "ebb/attest/all"
	channels "ebb/broker/notify/all"
	providers "ebb/broker/provider/all"
	wrappers "ebb/broker/seal/all"
)

// TestHouseKinds asks every table of kinds for every folder beside it, and the other way
// round: a kind that is not in its table would be built, tested and never usable.
func TestHouseKinds(t *testing.T) {
	t.Parallel()
	for contract, of := range map[string]struct {
		kinds []string
		tools []string // folders that are no kinds, beside all and the suites
	}{
		"attest":          {kinds: attestors.Kinds(), tools: []string{"clock", "dpop", "fetch", "jose", "options"}},
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
