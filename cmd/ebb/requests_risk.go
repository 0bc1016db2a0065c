package main

import (
	"strings"
	"text/tabwriter"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
)

// showRisk prints what people decide by, before all facts: how bad it is and why,
// what can be undone, and what the task could do when it asked.
func (c *cli) showRisk(r broker.Request) error {
	f, err := r.Sheet()
	switch {
	case err != nil:
		c.printf("risk\n  %s\n", out.Line(broker.AsError(err).Public))
		return nil
	case f.Risk == nil || f.Effect == nil || f.Then == nil:
		c.printf("risk\n  An older version of ebb took this request: approving it asks the agent to ask again.\n")
		return nil
	}
	c.printf("risk  %s\n", strings.ToUpper(string(f.Risk.Level)))
	for _, reason := range f.Risk.Reasons {
		c.printf("  %s\n", out.Line(reason.Text))
	}
	if !f.Understood() {
		c.printf("  It can be denied, not approved.\n")
	}
	for _, s := range f.Effect.Sentences {
		c.printf("  %s\n", out.Line(s))
	}
	c.printf("changes\n")
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, row := range f.Then.Changes {
		now, changed := row.Now, "same"
		if now == "" {
			now = "nothing"
		}
		if row.Changed {
			changed = "CHANGED"
		}
		if _, err := w.Write([]byte("  " + strings.Join([]string{string(row.Field), out.Line(now), "->", out.Line(row.Asked), changed}, "\t") + "\n")); err != nil {
			return err
		}
	}
	return w.Flush()
}
