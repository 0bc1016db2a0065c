package main

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

// queryFlags are the flags that describe a policy query.
type queryFlags struct {
	file, dir string
	server    bool
	scope     []string
	content   string
	labels    map[string]string
	selectors map[string]string
	q         policy.Query
}

func (f *queryFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.file, "query", "", "`file` with the whole query as JSON, - = standard input; the other flags are then ignored")
	fl.StringVar(&f.dir, "dir", "", "policy `directory`; default: the configured one")
	fl.BoolVar(&f.server, "server", false, "query the running ebb instead")
	fl.StringSliceVar(&f.scope, "scope", nil, "requested scope")
	fl.DurationVar(&f.q.TTL, "ttl", 15*time.Minute, "requested lifetime")
	fl.StringVar(&f.q.Tool, "tool", "", "tool that requests it")
	fl.StringVar(&f.q.Task.Kind, "kind", "adhoc", "kind of the task")
	fl.StringVar(&f.q.Task.Owner, "owner", "somebody", "owner of the task")
	fl.StringVar(&f.q.Task.Name, "name", "", "name of the task")
	fl.DurationVar(&f.q.Task.Age, "age", 0, "age of the task")
	fl.StringToStringVar(&f.labels, "label", nil, "label of the task, `name=value`")
	fl.StringVar(&f.q.Sandbox.Attestor, "attestor", "enroll", "attestor of the sandbox")
	fl.StringVar(&f.q.Sandbox.Evidence, "evidence", "ticket", "class of its evidence")
	fl.StringVar(&f.q.Sandbox.Subject, "subject", "somebody", "subject of its evidence")
	fl.StringToStringVar(&f.selectors, "selector", nil, "selector of its evidence, `name=value`")
	f.q.Binding = policy.BindingDPoP
	fl.Var(command.NewChoice(&f.q.Binding, policy.BindingDPoP, policy.BindingMTLS), "binding", "how the credential is bound to a key")
	fl.Var(command.NewChoice(&f.q.Delivery, policy.DeliveryToken, policy.DeliveryEgress), "delivery", "token or egress; default: token, with --server ebb's choice")
	fl.BoolVar(&f.q.CouldStay, "could-stay", false, "with token: egress could deliver it")
	fl.Var(command.NewChoice(&f.q.Revocability, policy.RevocableInstant, policy.RevocableEventual, policy.RevocableNever), "revocability", "default: instant, with --server that of the provider")
	fl.DurationVar(&f.q.Bound, "revocation-bound", 0, "with eventual: longest time from the revocation until it is refused")
	fl.IntVar(&f.q.Record.Denials, "denials", 0, "denials of the task so far")
	fl.IntVar(&f.q.Record.Violations, "violations", 0, "violations of the task so far")
	fl.StringSliceVar(&f.q.Taint, "taint", nil, "untrusted source that the task has read")
	fl.StringVar(&f.content, "content", "", "the one request to which the credential is limited, as `JSON`: {\"kind\":\"json\",\"actions\":[\"pay\"],\"objects\":[\"payments\"],\"amount\":\"EUR 80\"}")
}

func (f *queryFlags) query(c *cli) (policy.Query, error) {
	if f.file != "" {
		text, err := c.input(f.file, maxInput)
		if err != nil {
			return policy.Query{}, err
		}
		var q policy.Query
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			return q, usage(err.Error(), "write the member query of `ebb policy explain -o json`")
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
	if f.content != "" {
		if err := json.Unmarshal([]byte(f.content), &q.Content); err != nil {
			return q, usage("--content: "+err.Error(), "write an object with kind, actions, objects and amount, as the help shows")
		}
	}
	if q.Revocability == "" && !f.server {
		q.Revocability = policy.RevocableInstant
	}
	if !f.server {
		q.Delivery = cmp.Or(q.Delivery, policy.DeliveryToken)
	}
	return q, nil
}

// explained is the output of `ebb policy explain`.
type explained struct {
	Query       policy.Query       `json:"query"`
	Explanation policy.Explanation `json:"explanation"`
}

// verdictLine is the part of one policy in the decision on one scope.
type verdictLine struct {
	scope, effect string
	policy.Verdict
}

var verdictColumns = []out.Column[verdictLine]{
	{Name: "scope", Cell: func(v verdictLine) string { return v.scope }, Form: out.Scope},
	{Name: "gets", Cell: func(v verdictLine) string { return v.effect }},
	{Name: "policy", Cell: func(v verdictLine) string { return v.ID }},
	{Name: "at", Cell: func(v verdictLine) string { return v.File + ":" + strconv.Itoa(v.Line) }, Show: out.Full},
	{Name: "effect", Cell: func(v verdictLine) string { return v.Effect }},
	{Name: "matches", Cell: func(v verdictLine) string { return v.Matches }},
	{Name: "decides", Cell: func(v verdictLine) string { return strconv.FormatBool(v.Decides) }},
	{Name: "reason", Cell: func(v verdictLine) string { return v.Reason }, Form: out.Prose},
}

var decisionColumns = []out.Column[policy.Decision]{
	{Name: "effect", Cell: func(d policy.Decision) string { return d.Effect.String() }},
	{Name: "scope", Cell: func(d policy.Decision) string { return d.Scopes.String() }, Form: out.Scope},
	{Name: "ttl", Cell: func(d policy.Decision) string { return d.TTL.String() }},
	{Name: "ask", Cell: func(d policy.Decision) string {
		if d.Ask == nil {
			return ""
		}
		return strconv.Itoa(d.Ask.Quorum) + " of " + strings.Join(d.Ask.Groups, ", ")
	}},
	{Name: "max_amount", Cell: func(d policy.Decision) string { return d.MaxAmount.String() }},
	{Name: "rules", Cell: func(d policy.Decision) string { return strings.Join(d.Rules, ", ") }},
	{Name: "why", Cell: func(d policy.Decision) string { return strings.Join(d.Why, " ") }},
	{Name: "would_allow", Cell: func(d policy.Decision) string { return d.WouldAllow.String() }},
	{Name: "denied", Cell: func(d policy.Decision) string { return d.Denied.String() }},
}

func (c policyCommands) policyExplain() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{Use: "explain", Short: "Explain how the policies decide a request, policy by policy", Args: cobra.NoArgs}
	f.add(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		q, err := f.query(c.cli)
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
		columns := verdictColumns
		if c.format.IsTable() {
			if len(x.Scopes) == 1 { // the decision above has its scope and effect
				columns = columns[2:]
			}
			if err := out.One(c.stdout, c.format, decisionColumns, x.Decision); err != nil {
				return err
			}
			c.printf("\n")
		}
		return out.List(c.stdout, c.format, columns, lines)
	})
	return c.output(c.remote(cmd))
}

// recode converts a value to another type with the same JSON, such as one of
// the API to one of the broker.
func recode[To any](v any) (out To, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(text, &out)
	return out, err
}

func (c policyCommands) explainQuery(cmd *cobra.Command, f *queryFlags, q policy.Query) (policy.Explanation, error) {
	if f.server {
		o, err := c.operator(operatorKey)
		if err != nil {
			return policy.Explanation{}, err
		}
		asked, err := recode[wire.PolicyQuery](q)
		if err != nil {
			return policy.Explanation{}, err
		}
		x, err := o.Policy.Explain(cmd.Context(), asked)
		if err != nil {
			return policy.Explanation{}, err
		}
		return recode[policy.Explanation](x)
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
	{Name: "at", Cell: func(x replay.Change) string { return out.Time(x.At) }, Form: out.When},
	{Name: "task", Cell: func(x replay.Change) string { return x.TaskID }, Form: out.ID, Show: out.Full},
	{Name: "scope", Cell: func(x replay.Change) string { return x.Recorded.Query.Scopes.String() }, Form: out.Scope},
	{Name: "was", Cell: func(x replay.Change) string { return x.Recorded.Decision.Effect.String() }},
	{Name: "would_be", Cell: func(x replay.Change) string { return x.Now.Effect.String() }},
	{Name: "diff", Cell: func(x replay.Change) string { return strings.Join(x.Diff, " ") }, Form: out.Prose},
}

func (c policyCommands) policyReplay() *cobra.Command {
	var draft, live string
	cmd := &cobra.Command{
		Use: "replay EXPORT", Short: "Report which past decisions a draft would change, from an audit export", Args: cobra.ExactArgs(1),
		Long: "Decide the requests in an export of `ebb audit export` (\"-\" = standard input) again\nwith the policies of a draft directory, and list the decisions that would change. The\ncommand changes nothing and needs no server. --live counts the requests that both sets\ngrant, ask and deny, as the console does.",
	}
	cmd.Flags().StringVar(&draft, "dir", "", "policy `directory` of the draft")
	cmd.Flags().StringVar(&live, "live", "", "policy `directory` to compare with, \"starter\" = the built-in one; default: the recorded decisions")
	strict := cmd.Flags().Bool("strict", false, "exit with 1 if a decision would be wider")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		if draft == "" {
			return usage("--dir is missing", "name its directory with --dir")
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
			return fail("the draft grants more than was granted", "see the lines marked WIDER")
		}
		return nil
	})
	return c.output(cmd)
}
