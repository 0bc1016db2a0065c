package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// TestHostileCompletions: a server chooses ids and names. Completion offers none
// that a shell would interpret, and no control characters.
//
//ebb:invariant I9 Completion offers no word that a shell would interpret and no control character from a server
func TestHostileCompletions(t *testing.T) {
	t.Parallel()
	c := &cli{environ: nil, format: out.Table}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	got := c.offer(cmd, func(context.Context, *cli) ([]string, error) {
		return []string{
			"tsk_1\topen job", "$(reboot)", "`reboot`", "a b", "a;reboot", "a\nb", "", "\x1b[2J", "-rf", "--config=/tmp/x", "~root", "a'b", "..",
			"tsk_2\tname\x1b[2J\n:4",
		}, nil
	})
	if want := []string{"tsk_1\topen job", `tsk_2` + "\t" + out.Line("name\x1b[2J\n:4")}; !slices.Equal(got, want) {
		t.Errorf("offered %q, want %q", got, want)
	}
	if strings.ContainsAny(strings.Join(got, ""), "\x1b\n") {
		t.Errorf("%q", got)
	}
}
