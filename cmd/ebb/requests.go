package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var requestColumns = []out.Column[broker.Request]{
	{Name: "id", Cell: func(r broker.Request) string { return r.ID }},
	{Name: "state", Cell: func(r broker.Request) string { return string(r.State) }},
	{Name: "match_code", Cell: func(r broker.Request) string { return r.Match }},
	{Name: "scope", Cell: func(r broker.Request) string { return r.Scopes.String() }},
	{Name: "ttl_seconds", Cell: func(r broker.Request) string { return out.Int(r.TTL) }},
	{Name: "task", Cell: func(r broker.Request) string { return r.TaskID }},
	{Name: "owner", Cell: func(r broker.Request) string { return r.Owner }},
	{Name: "groups", Cell: func(r broker.Request) string { return strings.Join(r.Groups, " ") }},
	{Name: "expires_at", Cell: func(r broker.Request) string { return out.Time(r.ExpiresAt) }},
	{Name: "agent_says", Cell: func(r broker.Request) string { return agenttext.ShowLine(r.Reason, 60) }},
}

var requestDetails = []out.Column[broker.Request]{
	{Name: "id", Cell: func(r broker.Request) string { return r.ID }},
	{Name: "match_code", Cell: func(r broker.Request) string { return r.Match }},
	{Name: "state", Cell: func(r broker.Request) string { return string(r.State) }},
	{Name: "scope", Cell: func(r broker.Request) string { return r.Scopes.String() }},
	{Name: "resource", Cell: func(r broker.Request) string { return r.Resource }},
	{Name: "ttl_seconds", Cell: func(r broker.Request) string { return out.Int(r.TTL) }},
	{Name: "task", Cell: func(r broker.Request) string { return r.TaskID }},
	{Name: "owner", Cell: func(r broker.Request) string { return r.Owner }},
	{Name: "runner", Cell: func(r broker.Request) string { return r.Runner }},
	{Name: "sandbox", Cell: func(r broker.Request) string { return r.Sandbox }},
	{Name: "tool", Cell: func(r broker.Request) string { return r.Tool }},
	{Name: "asked", Cell: func(r broker.Request) string { return strconv.Itoa(r.Asked) + " time(s)" }},
	{Name: "decided_by", Cell: func(r broker.Request) string {
		return strings.Join(r.Groups, " ") + ", quorum " + strconv.Itoa(r.Quorum)
	}},
	{Name: "created_at", Cell: func(r broker.Request) string { return out.Time(r.CreatedAt) }},
	{Name: "expires_at", Cell: func(r broker.Request) string { return out.Time(r.ExpiresAt) }},
	{Name: "votes", Cell: votes},
	{Name: "granted_scope", Cell: func(r broker.Request) string { return r.Granted.String() }},
	{Name: "granted_ttl_seconds", Cell: func(r broker.Request) string { return out.Int(r.GrantedTTL) }},
	{Name: "grant_until", Cell: func(r broker.Request) string { return out.Time(r.GrantUntil) }},
	{Name: "code", Cell: func(r broker.Request) string { return string(r.Code) }},
	{Name: "note", Cell: func(r broker.Request) string { return r.Note }},
	{Name: "digest", Cell: func(r broker.Request) string { return r.Digest }},
	{Name: "agent_says", Cell: func(r broker.Request) string { return agenttext.ShowLine(r.Reason, 0) }},
	{Name: "notice", Cell: func(r broker.Request) string { return notices(r.Reason) }},
}

func votes(r broker.Request) string {
	var parts []string
	for _, v := range r.Votes {
		word := "no"
		if v.Approve {
			word = "yes"
		}
		parts = append(parts, v.By+": "+word)
	}
	return strings.Join(parts, ", ")
}

// notices are what a reader of an agent's text should know.
func notices(u agenttext.Untrusted) string {
	_, notes := agenttext.Show(u, 0)
	parts := make([]string, len(notes))
	for i, n := range notes {
		parts[i] = n.Text
	}
	return strings.Join(parts, " ")
}

func newRequests(c *cli) *cobra.Command {
	return c.group("requests", "See and decide what agents ask for", c.requestsList(), c.requestsShow(), c.requestsApprove(), c.requestsDeny())
}

func (c *cli) requestsList() *cobra.Command {
	var f broker.RequestFilter
	var state string
	cmd := &cobra.Command{Use: "list", Short: "List requests, newest first; those that wait unless --state or --all says otherwise", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&state, "state", string(broker.RequestPending), "pending, approved, issued, denied, expired or withdrawn")
	all := cmd.Flags().Bool("all", false, "in every state")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of tasks of this owner")
	cmd.Flags().StringVar(&f.Group, "group", "", "that this group may decide")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		if f.State = broker.RequestState(state); *all {
			f.State = ""
		}
		items, err := pages(*limit, func(p broker.Page) (client.List[broker.Request], error) {
			f.Page = p
			return o.Requests(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, requestColumns, items)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) requestsShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show REQUEST", Short: "Show one request: its facts, their digest, and what the agent says", Args: cobra.ExactArgs(1)}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		r, err := o.Request(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := out.One(c.stdout, c.format, requestDetails, r); err != nil || c.format != out.Table {
			return err
		}
		return showFacts(c, r)
	})
	return c.output(c.remote(cmd))
}

// showFacts prints what an approval would be bound to, one fact a line.
func showFacts(c *cli, r broker.Request) error {
	var b bytes.Buffer
	if err := json.Indent(&b, r.Facts, "", "  "); err != nil {
		return fmt.Errorf("the facts of the request cannot be read: %w", err)
	}
	if err := c.showRisk(r); err != nil {
		return err
	}
	c.printf("facts\n")
	for line := range strings.Lines(b.String()) {
		c.printf("  %s\n", out.Line(strings.TrimRight(line, "\n")))
	}
	return nil
}

// decision are the flags of approve and deny.
type decision struct {
	digest, note string
	yes          bool
}

func (d *decision) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.digest, "digest", "", "decide only if the facts still have this digest (see show)")
	cmd.Flags().StringVar(&d.note, "note", "", "what to tell the agent")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask; decide on the facts as they are now")
}

// look fetches the request and makes sure that somebody decides on its facts: by
// their digest, by a word at the terminal, or by --yes.
func (d *decision) look(c *cli, cmd *cobra.Command, o *client.Operator, id, verb string) (broker.Request, error) {
	if err := broker.CheckDigest(d.digest); d.digest != "" && err != nil {
		return broker.Request{}, usage("--digest: "+broker.AsError(err).Public, "copy the digest from `ebb requests show "+id+"`")
	}
	r, err := o.Request(cmd.Context(), id)
	switch {
	case err != nil:
		return r, err
	case d.digest != "" || d.yes:
		return r, nil
	case !terminal(c.stdin) || !terminal(c.stdout):
		return r, usage("nobody has looked at the facts", "pass --digest "+r.Digest+" after `ebb requests show "+r.ID+"`, or --yes")
	}
	if err := out.One(c.stdout, out.Table, requestDetails, r); err != nil {
		return r, err
	}
	if err := showFacts(c, r); err != nil {
		return r, err
	}
	c.printf("%s? [y/N] ", verb)
	var word string
	if _, err := fmt.Fscanln(c.stdin, &word); err != nil || word != "y" && word != "yes" {
		return r, fail("nothing was decided", "run it again when you know")
	}
	return r, nil
}

func (c *cli) requestsApprove() *cobra.Command {
	var d decision
	var scope []string
	var ttl time.Duration
	var target string
	cmd := &cobra.Command{Use: "approve REQUEST", Short: "Say yes, as asked or narrower (default key: the local approver's)", Args: cobra.ExactArgs(1)}
	d.add(cmd)
	cmd.Flags().StringSliceVar(&scope, "scope", nil, "narrower than asked")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "shorter than asked")
	cmd.Flags().StringVar(&target, "target", "", "name of the request's target; high risk needs the console too")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		narrower, err := parseScopes(scope)
		if err != nil {
			return err
		}
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		r, err := d.look(c, cmd, o, args[0], "approve")
		if err != nil {
			return err
		}
		v := broker.Verdict{Approve: true, Digest: r.Digest, Scopes: narrower, TTL: broker.Seconds(ttl / time.Second), Note: d.note, Target: target}
		if d.digest != "" {
			v.Digest = d.digest
		}
		if r, err = o.Approve(cmd.Context(), args[0], v); err != nil {
			return err
		}
		return out.One(c.stdout, c.format, requestDetails, r)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) requestsDeny() *cobra.Command {
	var d decision
	var code string
	cmd := &cobra.Command{Use: "deny REQUEST", Short: "Say no, and why (default key: the local approver's)", Args: cobra.ExactArgs(1)}
	d.add(cmd)
	cmd.Flags().StringVar(&code, "code", string(broker.NotNeeded), "too_broad, wrong_resource, not_needed, use_existing_grant, ask_owner, or suspicious, which also stops the task")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		if _, err := d.look(c, cmd, o, args[0], "deny"); err != nil {
			return err
		}
		r, err := o.Deny(cmd.Context(), args[0], broker.Verdict{Digest: d.digest, Code: broker.DenyCode(code), Note: d.note})
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, requestDetails, r)
	})
	return c.output(c.remote(cmd))
}
