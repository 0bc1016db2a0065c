package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ebb/attest"
	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
)

var attestorColumns = []out.Column[broker.AttestorState]{
	{Name: "name", Cell: func(a broker.AttestorState) string { return a.Name }},
	{Name: "for", Cell: func(a broker.AttestorState) string {
		if a.People {
			return "principals"
		}
		return "sandboxes"
	}},
	{Name: "challenges", Cell: func(a broker.AttestorState) string { return strconv.FormatBool(a.Challenges) }},
	{Name: "sees_death", Cell: func(a broker.AttestorState) string { return strconv.FormatBool(a.Watches) }},
	{Name: "on_death", Cell: func(a broker.AttestorState) string { return string(a.OnDeath) }},
	{Name: "reattest", Cell: func(a broker.AttestorState) string {
		if a.Reattest == 0 {
			return ""
		}
		return a.Reattest.Duration().String()
	}},
	{Name: "on_lapse", Cell: func(a broker.AttestorState) string { return string(a.OnLapse) }},
}

func newAttest(c *cli) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the configured attestors, and what follows from the end of a sandbox", Args: cobra.NoArgs}
	list.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := o.Attestors(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, attestorColumns, items)
	})
	return c.group("attest", "See who vouches for sandboxes; have evidence explained", c.output(c.remote(list)), c.attestExplain(), c.attestChallenge())
}

// explainedLine is one line of an explanation: what passed, what was found to be
// the case, or what stands in the way.
type explainedLine struct{ state, check, found string }

var explainedColumns = []out.Column[explainedLine]{
	{Name: "state", Cell: func(l explainedLine) string { return l.state }},
	{Name: "check", Cell: func(l explainedLine) string { return l.check }},
	{Name: "found", Cell: func(l explainedLine) string { return l.found }},
}

func (c *cli) attestExplain() *cobra.Command {
	var q broker.EvidenceQuery
	var jwk string
	cmd := &cobra.Command{
		Use: "explain ATTESTOR FILE", Short: "Say step by step how evidence is judged, and why it would be refused", Args: cobra.ExactArgs(2),
		Long: `Say step by step how evidence is judged, what it proves, and why it would be
refused; with --task also whether it would serve for that task. FILE - is standard
input. Nothing is proved, claimed, spent or counted by it, and nobody enrols.
Evidence that is bound to a key needs --jwk, the sandbox's public key. Exit code 3
when it would be refused.`,
	}
	cmd.Flags().StringVar(&q.TaskID, "task", "", "the task that it should serve for")
	cmd.Flags().StringVar(&jwk, "jwk", "", "`file` with the sandbox's public key as a JWK")
	cmd.Flags().StringVar(&q.X5T, "x5t", "", "x5t#S256 of the sandbox's certificate")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		text, err := c.input(args[1], attest.MaxDocument)
		if err != nil {
			return err
		}
		if jwk != "" {
			key, err := c.input(jwk, maxInput)
			if err != nil {
				return err
			}
			q.JWK = json.RawMessage(key)
			if !json.Valid(q.JWK) {
				return usage(jwk+" is not JSON", "write the public key as a JWK (RFC 7517)")
			}
		}
		q.Evidence = strings.TrimSpace(text)
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		x, err := o.ExplainEvidence(cmd.Context(), args[0], q)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			err = out.One(c.stdout, c.format, nil, x)
		} else {
			err = out.List(c.stdout, c.format, explainedColumns, linesOf(x))
		}
		if err == nil && (x.Verdict != broker.EvidenceAccepted || x.Task != nil && !x.Task.Accepted) {
			return &failure{exitRefused, "this evidence would not be accepted", "look at the lines that are not ok"}
		}
		return err
	})
	return c.output(c.remote(cmd))
}

// linesOf draws an explanation from top to bottom.
func linesOf(x broker.EvidenceExplanation) (lines []explainedLine) {
	add := func(state, check, found string) { lines = append(lines, explainedLine{state, check, found}) }
	for _, s := range x.Steps {
		add("ok", s.Check, s.Found)
	}
	if id := x.Identity; id != nil {
		add("ok", "subject", id.Subject)
		add("ok", "class "+id.Class, id.Proves)
		add("ok", "selectors", out.Pairs(id.Selectors))
		if !id.NotAfter.IsZero() {
			add("ok", "vouches until", out.Time(id.NotAfter))
		}
		if id.Key != "" {
			add("ok", "bound to key", id.Key)
		}
	}
	if x.Verdict != broker.EvidenceAccepted {
		add(x.Verdict, x.Reason, x.Why)
	}
	if t := x.Task; t != nil {
		for _, s := range t.Selectors {
			state := "ok"
			if !s.Equal {
				state = "differs"
			}
			add(state, "registered "+s.Name+"="+s.Registered, s.Shown)
		}
		if t.Accepted {
			add("ok", "task "+t.ID, "it would serve")
		} else {
			add("refused", "task "+t.ID, t.Why)
		}
	}
	return lines
}
