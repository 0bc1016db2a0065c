package main

import (
	"strings"
	"text/tabwriter"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/wire"
)

// showRisk prints the basis of a decision, before all facts: the risk and its
// reasons, the effect and whether it can be undone, and how the task's access
// would change.
func (c requestCommands) showRisk(r wire.Request) error {
	f, err := broker.Request{Facts: r.Facts, Digest: r.Digest}.Sheet()
	switch {
	case err != nil:
		c.printf("risk\n  %s\n", out.Line(broker.AsError(err).Public))
		return nil
	case f.Risk == nil || f.Effect == nil || f.Then == nil:
		c.printf("risk\n  An older version of ebb received this request: if it is approved, the agent has to request again.\n")
		return nil
	}
	c.printf("risk  %s\n", strings.ToUpper(string(f.Risk.Level)))
	for _, reason := range f.Risk.Reasons {
		c.printf("  %s\n", out.Line(reason.Text))
	}
	if !f.Understood() {
		c.printf("  It can only be denied.\n")
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
