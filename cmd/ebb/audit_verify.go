package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

var reportColumns = []out.Column[audit.Report]{
	{Name: "entries", Cell: func(r audit.Report) string { return strconv.Itoa(r.Entries) }},
	{Name: "checkpoints", Cell: func(r audit.Report) string { return strconv.Itoa(r.Checkpoints) }},
	{Name: "writers", Cell: func(r audit.Report) string { return strconv.Itoa(len(r.Writers)) }},
	{Name: "unsealed", Cell: func(r audit.Report) string { return strconv.Itoa(r.Unsealed) }},
	{Name: "signed", Cell: func(r audit.Report) string { return strconv.Itoa(r.Signed) }},
	{Name: "unregistered", Cell: func(r audit.Report) string { return strconv.Itoa(r.Unregistered) }},
	{Name: "unkept", Cell: func(r audit.Report) string { return strconv.Itoa(r.Unkept) }},
	{Name: "partial", Cell: func(r audit.Report) string { return strconv.FormatBool(r.Partial) }},
	{Name: "missing_writers", Cell: func(r audit.Report) string { return strings.Join(r.Missing, " ") }},
}

func (c auditCommands) auditVerify() *cobra.Command {
	var keyFiles []string
	var whole bool
	var against string
	cmd := &cobra.Command{
		Use: "verify EXPORT", Short: "Verify an export offline: no line was changed, dropped, added or moved", Args: cobra.ExactArgs(1),
		Long: `Verify an export ("-" = standard input) with public keys only. The command does not
use the network. Keys are a JWK set as at /.well-known/jwks.json, a JWK, or PEM.
Without --keys the keys of the data directory of this machine are used, and the command
prints a notice. A key that the export introduces itself (key.added) is trusted once a
checkpoint signed by one of these keys covers that entry.

With --against, an earlier export or checkpoint must be a prefix of this export. Save
exports where ebb cannot write, and verify each against the one before.

An export with --task, --lease, --request, --kind or --actor needs 'ebb audit export
--proof'. Without it, entries that the filter left out look the same as entries that were
removed. A proof shows that its entries are in the audit log, unaltered. Only an
unfiltered export can show that no other entry matches the filter.

The report:
  entries, checkpoints, writers  the contents; each run of ebb is a writer, with its own chain
  unsealed         entries after the last checkpoint: linked by hashes, not signed yet
  signed           decisions signed by a passkey whose registration is in this export
  unregistered     decisions signed by a passkey whose registration is not in this export
  unkept           decisions without their evidence; export with --kept to include it
  partial          true: the export does not begin at the beginning of every chain
  missing writers  writers that a checkpoint names and a partial export does not contain
PROVED means that every entry up to the last checkpoint is as ebb wrote it.

In an export with --kept, the page that each approver saw must have the hash in the
entry of the decision. The passkey must have signed that decision on that request with
those facts, with the key of its registration entry.`,
	}
	cmd.Flags().StringArrayVar(&keyFiles, "keys", nil, "`file` of public keys, repeatable")
	cmd.Flags().BoolVar(&whole, "whole", false, "fail unless the export starts at the beginning of every chain and a checkpoint covers it")
	cmd.Flags().StringVar(&against, "against", "", "earlier export or checkpoint `file`: fail unless this export continues it")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		keys, err := c.verifyKeys(keyFiles)
		if err != nil {
			return err
		}
		held, err := heldHeads(against, keys)
		if err != nil {
			return err
		}
		var in io.Reader = c.stdin
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return usage(err.Error(), "name the file that `ebb audit export` wrote")
			}
			defer f.Close()
			in = f
		}
		report, err := audit.VerifyAgainst(in, keys, passkey.Check, held)
		if fault, ok := errors.AsType[*audit.Fault](err); ok {
			return fail("NOT PROVED: "+out.Line(fault.Error()), "the audit log was altered, the export is damaged, or --keys belong to another ebb; the keys were "+keyIDs(keys))
		}
		if part, ok := errors.AsType[*audit.FilteredError](err); ok {
			return fail("NOT PROVED: "+out.Line(part.Error()), "export again with --proof, or without --task, --lease, --request, --kind and --actor")
		}
		if err != nil {
			return err
		}
		if err := out.One(c.stdout, c.format, reportColumns, report); err != nil {
			return err
		}
		if report.Proof != nil && !whole {
			return c.sayProof(report)
		}
		if whole && !report.Whole() {
			return fail("NOT PROVED: the export does not start at the beginning of every chain, or no checkpoint covers it", "export again without filters, after a checkpoint (limits.checkpoint) was made")
		}
		// The hash links alone prove nothing: a writer to the store can compute new
		// ones.
		if report.Checkpoints == 0 {
			return fail("NOT PROVED: no signed checkpoint is in the export", "export again without filters, after a checkpoint (limits.checkpoint) was made")
		}
		switch {
		case !c.format.IsTable():
		case report.Unsealed > 0:
			c.printf("PROVED    up to the last checkpoint; the %d entries after it are linked and not signed yet\n", report.Unsealed)
		default:
			c.printf("PROVED    nothing in it was changed, dropped or moved\n")
		}
		if c.format.IsTable() {
			c.printSigned(report)
			c.printKeys(report, against)
		}
		return nil
	})
	return c.output(cmd)
}

// sayProof reports a verified proof of a filtered export.
func (c auditCommands) sayProof(r audit.Report) error {
	if r.Entries == 0 {
		return fail("NOT PROVED: the proof has no entries", "export again with another filter, or after the next checkpoint (limits.checkpoint)")
	}
	if !c.format.IsTable() {
		return nil
	}
	var filter []string
	for _, name := range slices.Sorted(maps.Keys(r.Proof.Filter)) {
		filter = append(filter, name+"="+r.Proof.Filter[name])
	}
	c.printf("PROVED    these %d entries are in the audit log, unaltered and in this order\n", r.Entries)
	c.printf("LINKED    by %d other entries, up to %d signed checkpoints\n", r.Between, r.Checkpoints)
	c.printf("FILTER    %s: %s (as the export states it)\n", out.Line(r.Proof.List), out.Line(cmp.Or(strings.Join(filter, " "), "none")))
	c.printf("NOT SHOWN that no other entry matches the filter; to check that, verify an unfiltered export of the period\n")
	if r.Proof.Unsigned > 0 {
		c.printf("LEFT OUT  %d entries without a signature yet (as the export states it)\n", r.Proof.Unsigned)
	}
	c.printf("KEYS      %s\n", strings.Join(r.Keys, " "))
	return nil
}

// printSigned prints how many decisions are signed by passkeys, and how many
// could not be checked.
func (c auditCommands) printSigned(r audit.Report) {
	if r.Signed > 0 {
		c.printf("SIGNED    %d answers of people, each by a passkey whose registration is on this record\n", r.Signed)
	}
	if r.Unregistered > 0 {
		c.printf("SIGNED    %d answers by passkeys whose registration is not in this export: export from the beginning to see whose they are\n", r.Unregistered)
	}
	if r.Unkept > 0 {
		c.printf("NOT HERE  what was kept of %d answers: `ebb audit export --kept` has it\n", r.Unkept)
	}
}

// printKeys prints the keys and the earlier export that the verification used,
// and revoked checkpoints and accepted losses.
func (c auditCommands) printKeys(r audit.Report, against string) {
	if against != "" {
		c.printf("EXTENDS   %s\n", out.Line(against))
	}
	c.printf("KEYS      %s\n", strings.Join(r.Keys, " "))
	if r.Revoked > 0 {
		c.printf("REVOKED   %d checkpoints do not count: their key had been revoked\n", r.Revoked)
	}
	if r.Losses > 0 {
		c.printf("LOSS      %d times an operator accepted that entries are gone: `ebb audit list --kind loss.accepted`\n", r.Losses)
	}
}

// keyIDs returns the key IDs of a set, separated by spaces.
func keyIDs(set jose.KeySet) string {
	var ids []string
	for _, k := range set.Keys() {
		ids = append(ids, k.KID)
	}
	return strings.Join(ids, " ")
}

// heldHeads returns the head of each chain in an earlier export, or in a
// checkpoint that one of keys must have signed.
func heldHeads(file string, keys jose.KeySet) (map[string]audit.Head, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage(err.Error(), "name a file that `ebb audit export` wrote earlier, or a checkpoint")
	}
	var one audit.Checkpoint
	if one.UnmarshalJSON(bytes.TrimSpace(text)) == nil {
		if err := one.Verify(keys); err != nil {
			return nil, fail("NOT PROVED: the checkpoint "+file+" is not signed by one of the keys: "+err.Error(), "give its public key with --keys; the keys were "+keyIDs(keys))
		}
		return one.Heads, nil
	}
	report, err := audit.Verify(bytes.NewReader(text), keys)
	if err != nil {
		return nil, fail("NOT PROVED: the earlier export "+file+": "+out.Line(err.Error()), "name a whole export, or a checkpoint, that was kept earlier")
	}
	heads := map[string]audit.Head{}
	for _, w := range report.Writers {
		heads[w.Writer] = audit.Head{Seq: w.Last, Hash: w.Hash}
	}
	if len(heads) == 0 {
		return nil, usage(file+" has no entries", "name a file that `ebb audit export` wrote earlier, or a checkpoint")
	}
	return heads, nil
}

// verifyKeys reads public keys from files, or the local ones, including retired
// keys.
func (c auditCommands) verifyKeys(files []string) (jose.KeySet, error) {
	if len(files) == 0 {
		all, err := keyCommands(c).localPublicKeys()
		if err != nil {
			return jose.KeySet{}, usage("without --keys, "+err.Error(), "name a file of ebb's public keys with --keys: save URL/.well-known/jwks.json of an ebb that you trust")
		}
		set, err := jose.NewKeySet(all...)
		if err == nil {
			fmt.Fprintf(c.stderr, "without --keys: the keys of the data directory on this machine are used: %s\n", keyIDs(set))
		}
		return set, err
	}
	var all []jose.Key
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return jose.KeySet{}, usage(err.Error(), "name a readable file of public keys")
		}
		if set, err := jose.ParseJWKS(text); err == nil {
			all = append(all, set.Keys()...)
			continue
		}
		key, err := config.PublicKey(text)
		if err != nil {
			return jose.KeySet{}, usage(file+": "+err.Error(), "save /.well-known/jwks.json of that ebb, or a public JWK or PEM")
		}
		all = append(all, key)
	}
	return jose.NewKeySet(all...)
}
