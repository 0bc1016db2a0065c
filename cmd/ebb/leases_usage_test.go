package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// TestSayUsage: data that the rows leave out is reported, and nothing is
// printed if they are complete.
func TestSayUsage(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		usage wire.Usage
		want  []string
	}{
		"nothing":    {wire.Usage{From: from}, nil},
		"cut":        {wire.Usage{From: from, Cut: true}, []string{"covers credentials issued since 2026-03-04T05:06:00Z"}},
		"uses":       {wire.Usage{From: from, UsesFrom: from.Add(time.Hour)}, []string{"uses and last_used cover the time since 2026-03-04T06:06:00Z"}},
		"no less":    {wire.Usage{From: from, UsesFrom: from}, nil},
		"more":       {wire.Usage{From: from, More: true}, []string{"there are more rows"}},
		"handed out": {wire.Usage{From: from, HandedOut: 7, Carried: 3}, []string{"7 more credential(s) were delivered as tokens", "3 of them"}},
		"all":        {wire.Usage{From: from, Cut: true, More: true, HandedOut: 1}, []string{"issued since", "more rows", "delivered as tokens"}},
	} {
		var said strings.Builder
		leaseCommands{&cli{stderr: &said}}.sayUsage(tt.usage)
		for _, text := range tt.want {
			if !strings.Contains(said.String(), text) {
				t.Errorf("%s: it does not say %q: %s", name, text, said.String())
			}
		}
		if tt.want == nil && said.Len() > 0 {
			t.Errorf("%s: %s", name, said.String())
		}
	}
}
