package main

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker/replay"
	"ebb/cmd/ebb/internal/out"
	"ebb/scopes/policy"
)

// queryFlags describe a question to the policies.
type queryFlags struct {
	file, dir string
	server    bool
	scope     []string
	labels    map[string]string
	selectors map[string]string
	q         policy.Query
}

func (f *queryFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.file, "query", "", "`file` with the whole query as JSON, - = standard input; the other flags are then not read")
	fl.StringVar(&f.dir, "dir", "", "policy directory; default: the configured one")
	fl.BoolVar(&f.server, "server", false, "ask the running ebb instead")
	fl.StringSliceVar(&f.scope, "scope", nil, "what is asked for")
	fl.DurationVar(&f.q.TTL, "ttl", 15*time.Minute, "for how long")
	fl.StringVar(&f.q.Tool, "tool", "", "tool that asks")
	fl.StringVar(&f.q.Task.Kind, "kind", "adhoc", "kind of the task")
	fl.StringVar(&f.q.Task.Owner, "owner", "somebody", "owner of the task")
	fl.StringVar(&f.q.Task.Name, "name", "", "name of the task")
	fl.DurationVar(&f.q.Task.Age, "age", 0, "age of the task")
	fl.StringToStringVar(&f.labels, "label", nil, "label of the task, `name=value`")
	fl.StringVar(&f.q.Sandbox.Attestor, "attestor", "enroll", "who vouches for the sandbox")
	fl.StringVar(&f.q.Sandbox.Evidence, "evidence", "ticket", "class of its evidence")
	fl.StringVar(&f.q.Sandbox.Subject, "subject", "somebody", "subject of its evidence")
	fl.StringToStringVar(&f.selectors, "selector", nil, "selector of its evidence, `name=value`")
	fl.StringVar(&f.q.Binding, "binding", policy.BindingDPoP, "dpop or mtls")
	fl.StringVar(&f.q.Delivery, "delivery", "", "token or egress; default: token, with --server as ebb would deliver")
	fl.BoolVar(&f.q.CouldStay, "could-stay", false, "with token: egress could add it to requests")
	fl.StringVar(&f.q.Revocability, "revocability", "", "instant, eventual or ttl-only; default: instant, with --server as the provider is")
	fl.DurationVar(&f.q.Bound, "revocation-bound", 0, "with eventual: refused at most so long after the revocation")
	fl.IntVar(&f.q.Record.Denials, "denials", 0, "denials of the task so far")
	fl.IntVar(&f.q.Record.Violations, "violations", 0, "violations of the task so far")
	fl.StringSliceVar(&f.q.Taint, "taint", nil, "untrusted source that the task has read")
}

func (f *queryFlags) query(c *cli) (policy.Query, error) {
	if f.file != "" {
		text, err := c.input(f.file, maxInput)
		if err != nil {
			return policy.Query{}, err
		}
		var q policy.Query
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			return q, usage(err.Error(), "the members are those of `ebb policy explain -o json`")
		}
		return q, nil
	}
	set, err := parseScopes(f.scope)
	if err != nil {
		return policy.Query{}, err
	}
	q := f.q
	q.Scopes, q.Task.Labels, q.Sandbox.Selectors = set, f.labels, f.selectors
	q.Task.ID, q.Sandbox.ID = "tsk_explain", "sbx_explain"
	if q.Revocability == "" && !f.server {
		q.Revocability = policy.RevocableInstant
	}
	if !f.server {
		q.Delivery = cmp.Or(q.Delivery, policy.DeliveryToken)
	}
	return q, nil
}

// explained is what `ebb policy explain` prints.
type explained struct {
	Query       policy.Query       `json:"query"`
	Explanation policy.Explanation `json:"explanation"`
}

// verdictLine is one policy's part in the judgement of one scope.
type verdictLine struct {
	scope, effect string
	policy.Verdict
}

var verdictColumns = []out.Column[verdictLine]{
	{Name: "scope", Cell: func(v verdictLine) string { return v.scope }},
	{Name: "gets", Cell: func(v verdictLine) string { return v.effect }},
	{Name: "policy", Cell: func(v verdictLine) string { return v.ID }},
	{Name: "at", Cell: func(v verdictLine) string { return v.File + ":" + strconv.Itoa(v.Line) }},
	{Name: "effect", Cell: func(v verdictLine) string { return v.Effect }},
	{Name: "matches", Cell: func(v verdictLine) string { return v.Matches }},
	{Name: "decides", Cell: func(v verdictLine) string { return strconv.FormatBool(v.Decides) }},
	{Name: "reason", Cell: func(v verdictLine) string { return v.Reason }},
}

var decisionColumns = []out.Column[policy.Decision]{
	{Name: "effect", Cell: func(d policy.Decision) string { return d.Effect.String() }},
	{Name: "scope", Cell: func(d policy.Decision) string { return d.Scopes.String() }},
	{Name: "ttl", Cell: func(d policy.Decision) string { return d.TTL.String() }},
	{Name: "ask", Cell: func(d policy.Decision) string {
		if d.Ask == nil {
			return ""
		}
		return strconv.Itoa(d.Ask.Quorum) + " of " + strings.Join(d.Ask.Groups, ", ")
	}},
	{Name: "rules", Cell: func(d policy.Decision) string { return strings.Join(d.Rules, ", ") }},
	{Name: "why", Cell: func(d policy.Decision) string { return strings.Join(d.Why, " ") }},
	{Name: "would_allow", Cell: func(d policy.Decision) string { return d.WouldAllow.String() }},
	{Name: "denied", Cell: func(d policy.Decision) string { return d.Denied.String() }},
}

func (c *cli) policyExplain() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{Use: "explain", Short: "Say how the policies decide a request, and which policy did what", Args: cobra.NoArgs}
	f.add(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		q, err := f.query(c)
		if err != nil {
			return err
		}
		x, err := c.explainQuery(cmd, &f, q)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			return out.One(c.stdout, c.format, nil, explained{q, x})
		}
		var lines []verdictLine
		for _, s := range x.Scopes {
			for _, v := range s.Policies {
				lines = append(lines, verdictLine{s.Scope.String(), s.Effect.String(), v})
			}
		}
		if c.format == out.Table {
			if err := out.One(c.stdout, c.format, decisionColumns, x.Decision); err != nil {
				return err
			}
			c.printf("\n")
		}
		return out.List(c.stdout, c.format, verdictColumns, lines)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) explainQuery(cmd *cobra.Command, f *queryFlags, q policy.Query) (policy.Explanation, error) {
	if f.server {
		o, err := c.operator(operatorKey)
		if err != nil {
			return policy.Explanation{}, err
		}
		x, err := o.Explain(cmd.Context(), q)
		if err != nil {
			return policy.Explanation{}, err
		}
		return policy.Explanation(x), nil
	}
	var args []string
	if f.dir != "" {
		args = []string{f.dir}
	}
	dir, err := c.policyDir(args)
	if err != nil {
		return policy.Explanation{}, err
	}
	set, err := loadPolicies(dir)
	if err != nil {
		return policy.Explanation{}, err
	}
	x, err := set.Explain(q)
	if err != nil {
		return x, usage(err.Error(), "complete the query")
	}
	return x, nil
}

var changeColumns = []out.Column[replay.Change]{
	{Name: "wider", Cell: func(x replay.Change) string {
		if x.Wider {
			return "WIDER"
		}
		return ""
	}},
	{Name: "at", Cell: func(x replay.Change) string { return out.Time(x.At) }},
	{Name: "task", Cell: func(x replay.Change) string { return x.TaskID }},
	{Name: "scope", Cell: func(x replay.Change) string { return x.Recorded.Query.Scopes.String() }},
	{Name: "was", Cell: func(x replay.Change) string { return x.Recorded.Decision.Effect.String() }},
	{Name: "would_be", Cell: func(x replay.Change) string { return x.Now.Effect.String() }},
	{Name: "diff", Cell: func(x replay.Change) string { return strings.Join(x.Diff, "; ") }},
}

func (c *cli) policyReplay() *cobra.Command {
	var draft, live string
	cmd := &cobra.Command{
		Use: "replay EXPORT --dir DRAFT", Short: "Say what a draft would have decided differently, from an audit export", Args: cobra.ExactArgs(1),
		Long: "Let the policies of a draft directory decide again what the export (\"-\" = standard\ninput) of `ebb audit export` recorded, and list what would have changed. Nothing is\nchanged or asked of a server. --live counts what both sets grant, ask and deny, as the\nconsole does.",
	}
	cmd.Flags().StringVar(&draft, "dir", "", "draft policy directory")
	cmd.Flags().StringVar(&live, "live", "", "policy `directory` to compare with, \"starter\" = the built-in one; default: with what was recorded")
	strict := cmd.Flags().Bool("strict", false, "exit 1 when anything would have been wider")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		if draft == "" {
			return usage("there is no draft", "name its directory with --dir")
		}
		set, err := loadPolicies(draft)
		if err != nil {
			return err
		}
		in := c.stdin
		if args[0] != "-" {
			f, err := openFile(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		past, err := replay.Read(in)
		if err != nil {
			return fail(err.Error(), "name the file that `ebb audit export` wrote")
		}
		if live != "" {
			return c.comparePast(live, set, past, *strict)
		}
		changes := replay.Against(set, past.Decisions)
		if err := out.List(c.stdout, c.format, changeColumns, changes); err != nil {
			return err
		}
		wider := 0
		for _, x := range changes {
			if x.Wider {
				wider++
			}
		}
		c.sayf("%d decisions replayed, %d would have changed, %d of them wider; %d skipped: the export lacks the start of their task\n", len(past.Decisions), len(changes), wider, past.Skipped)
		if *strict && wider > 0 {
			return fail("the draft is wider", "look at the lines marked WIDER")
		}
		return nil
	})
	return c.output(cmd)
}
