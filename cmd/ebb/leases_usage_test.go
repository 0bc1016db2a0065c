package main

import (
	"strings"
	"testing"
	"time"

	"ebb/broker"
)

// TestSayUsage: what the rows leave out is said beside them, and nothing where they leave nothing out.
func TestSayUsage(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		usage broker.Usage
		want  []string
	}{
		"nothing":    {broker.Usage{From: from}, nil},
		"cut":        {broker.Usage{From: from, Cut: true}, []string{"this is since 2026-03-04T05:06:00Z"}},
		"uses":       {broker.Usage{From: from, UsesFrom: from.Add(time.Hour)}, []string{"uses and the last of them are since 2026-03-04T06:06:00Z"}},
		"no less":    {broker.Usage{From: from, UsesFrom: from}, nil},
		"more":       {broker.Usage{From: from, More: true}, []string{"there are more rows"}},
		"handed out": {broker.Usage{From: from, HandedOut: 7, Carried: 3}, []string{"7 more credential(s) were handed out", "by 3 of them"}},
		"all":        {broker.Usage{From: from, Cut: true, More: true, HandedOut: 1}, []string{"this is since", "more rows", "handed out"}},
	} {
		var said strings.Builder
		(&cli{stderr: &said}).sayUsage(tt.usage)
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
