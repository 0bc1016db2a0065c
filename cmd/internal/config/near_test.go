package config_test

import (
	"slices"
	"strings"
	"testing"
)

// A key of an earlier version is refused with the reason why it was removed.
func TestRemovedKeys(t *testing.T) {
	t.Parallel()
	_, err := load(t, "listen: 127.0.0.1:9000\nmcp_compat: true\n", "EBB_MCP_COMPAT=true")
	if got := wrong(t, err); !slices.Equal(got, []string{"mcp_compat", "EBB_MCP_COMPAT"}) {
		t.Fatalf("refused: %v", got)
	}
	for _, want := range []string{"mcp_compat (ebb.yaml:2): there is no such key\n    -> remove it; it was removed: the metadata", "EBB_MCP_COMPAT: there is no such variable\n    -> unset it; it was removed: the metadata"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
