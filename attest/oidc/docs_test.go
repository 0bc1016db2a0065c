package oidc_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/ebb-broker/ebb/attest/oidc"
)

// TestPage checks that every configuration in docs/attestors/oidc.md is valid, and that
// the page has a configuration of every preset and names every selector.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/attestors/oidc.md")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		text, err := yaml.YAMLToJSON(m[1])
		if err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		var f struct {
			Attestors []struct {
				Name, Kind string
				Config     json.RawMessage
			}
		}
		var preset struct{ Preset string }
		if err := json.Unmarshal(text, &f); err != nil || len(f.Attestors) != 1 || f.Attestors[0].Kind != "oidc" || json.Unmarshal(f.Attestors[0].Config, &preset) != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c, err := oidc.Decode(f.Attestors[0].Config)
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
			continue
		}
		c.Name = f.Attestors[0].Name
		if _, err := oidc.New(c); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		seen = append(seen, preset.Preset)
	}
	for _, name := range oidc.Presets() {
		if !slices.Contains(seen, name) {
			t.Errorf("the page has no configuration with preset %s", name)
		}
		for _, selector := range slices.Sorted(maps.Keys(readGolden(t, name).Identity.Selectors)) {
			if !strings.Contains(string(page), "`"+selector+"`") {
				t.Errorf("%s: the page does not tell of selector %s", name, selector)
			}
		}
	}
}
