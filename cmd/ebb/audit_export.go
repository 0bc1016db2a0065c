package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func (c auditCommands) auditExport() *cobra.Command {
	var flags entryFlags
	var to string
	var kept, proof bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write the audit log with its checkpoints, for `ebb audit verify`", Args: cobra.NoArgs,
		Long: `Write the audit log with its checkpoints, oldest entry first, for 'ebb audit verify'.

'ebb audit verify' proves an export that is filtered only by time. With any other filter,
add --proof: the export then has the entries that match, the entries that link each of them
to the next signed checkpoint, and those checkpoints. The proof shows that the entries are in
the audit log, unaltered. The proof does not show that no other entry matches.`,
	}
	flags.add(cmd)
	exportFile(cmd, &to)
	cmd.Flags().BoolVar(&kept, "kept", false, "include the pages that approvers saw and the data that their passkeys signed; these contain text written by agents")
	cmd.Flags().BoolVar(&proof, "proof", false, "prove the entries that match the filter")
	cmd.MarkFlagsMutuallyExclusive("kept", "proof")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.exporter(to)
		if err != nil {
			return err
		}
		if err := flags.complete(cmd.Context(), c.cli, o); err != nil {
			return err
		}
		export := o.Audit.Export
		switch {
		case kept:
			export = o.Audit.ExportWithEvidence
		case proof:
			export = o.Audit.Proof
		}
		return c.writeExport(to, func(w io.Writer) error { return export(cmd.Context(), flags.filter(), w) })
	})
	return c.remote(cmd)
}

func exportFile(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "file", "f", "", "new `file` to write; default: standard output")
}

// exporter returns the client of an export, which is not written to a terminal.
func (c *cli) exporter(to string) (*client.Operator, error) {
	if to == "" && terminal(c.stdout) {
		return nil, usage("an export is not written to a terminal", "name a file with -f, or read it with `ebb audit list`")
	}
	return c.operator(operatorKey)
}

// writeExport writes an export to a new file, or to standard output, and reports
// the number of its entries and checkpoints.
func (c *cli) writeExport(to string, export func(io.Writer) error) error {
	n := exportCounts{last: map[string]int64{}}
	if to == "" {
		if err := export(io.MultiWriter(c.stdout, &n)); err != nil {
			return err
		}
		c.sayExport(n, "standard output")
		return nil
	}
	// The file appears only when it is complete, so that a partial export
	// cannot be taken for the audit log.
	tmp, err := os.CreateTemp(filepath.Dir(to), ".ebb-export-*")
	if err != nil {
		return fail("write the export: "+err.Error(), "choose another --file")
	}
	defer os.Remove(tmp.Name())
	if err := export(io.MultiWriter(tmp, &n)); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return fail("write the export: "+err.Error(), "choose another --file")
	}
	if err := os.Link(tmp.Name(), to); err != nil {
		return fail("create the export file: "+err.Error(), "choose a --file that does not exist")
	}
	c.sayExport(n, to)
	return nil
}

// exportCounts counts the lines of an export that is written to it.
type exportCounts struct {
	line     []byte // the beginning of a line
	entries  int
	last     map[string]int64 // writer -> its last entry
	filtered bool
	proof    *audit.Statement // of a proof
	point    wire.Checkpoint  // the last checkpoint, zero without one
}

// Write implements io.Writer. Lines that are not those of an export are not counted.
func (n *exportCounts) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		n.line = append(n.line, line...)
		if rest = after; ended {
			n.count()
			n.line = n.line[:0]
		}
	}
	return len(p), nil
}

func (n *exportCounts) count() {
	var l struct {
		wire.AuditEntry
		Filter     json.RawMessage  `json:"filter"`
		Proof      *audit.Statement `json:"proof"`
		Checkpoint *wire.Checkpoint `json:"checkpoint"`
	}
	switch {
	case json.Unmarshal(n.line, &l) != nil:
	case l.Checkpoint != nil:
		n.point = *l.Checkpoint
	case l.Filter != nil:
		n.filtered = true
	case l.Proof != nil:
		n.proof = l.Proof
	case l.Seq > 0:
		n.entries++
		n.last[l.Writer] = l.Seq
	}
}

// unsealed is the number of entries after the last checkpoint.
func (n *exportCounts) unsealed() int64 {
	var after int64
	for writer, seq := range n.last {
		after += max(0, seq-n.point.Heads[writer].Seq)
	}
	return after
}

// sayExport reports a complete export.
func (c *cli) sayExport(n exportCounts, to string) {
	c.sayf("ebb: wrote %d entries to %s\n", n.entries, out.Line(to))
	switch {
	case n.proof != nil && n.proof.Unsigned > 0:
		c.sayf("ebb: %d entries were left out, because no checkpoint has signed them yet (limits.checkpoint); export again after the next checkpoint\n", n.proof.Unsigned)
	case n.proof != nil:
	case n.filtered:
		c.sayf("ebb: the export is filtered, so `ebb audit verify` cannot prove it; add --proof\n")
	case n.point.JWS == "":
		c.sayf("ebb: no checkpoint has been signed yet (limits.checkpoint), so `ebb audit verify` cannot prove it\n")
	default:
		c.sayf("ebb: the last checkpoint was signed at %s; %d entries follow it\n", out.Line(n.point.At), n.unsealed())
	}
}
