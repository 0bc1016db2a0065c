package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// requestCommands holds the sub-commands of ebb requests and ebb break-glass.
type requestCommands struct{ *cli }

var requestColumns = []out.Column[wire.Request]{
	{Name: "id", Cell: func(r wire.Request) string { return r.ID }, Form: out.ID},
	{Name: "state", Cell: func(r wire.Request) string { return string(r.State) }},
	{Name: "match_code", Cell: func(r wire.Request) string { return r.Match }},
	{Name: "scope", Cell: func(r wire.Request) string { return r.Scopes }, Form: out.Scope},
	{Name: "ttl_seconds", Cell: func(r wire.Request) string { return out.Int(r.TTL) }, Show: out.Full},
	{Name: "ttl", Cell: func(r wire.Request) string { return out.Seconds(r.TTL) }, Show: out.Brief},
	{Name: "task", Cell: func(r wire.Request) string { return r.TaskID }, Form: out.ID, Show: out.Full},
	{Name: "owner", Cell: func(r wire.Request) string { return r.Owner }},
	{Name: "groups", Cell: func(r wire.Request) string { return strings.Join(r.Groups, " ") }, Show: out.Full},
	{Name: "expires_at", Cell: func(r wire.Request) string { return out.Time(r.ExpiresAt) }, Form: out.When},
	{Name: "agent_says", Cell: func(r wire.Request) string { return agenttext.ShowLine(agentSays(r), 60) }},
}

var requestDetails = []out.Column[wire.Request]{
	{Name: "id", Cell: func(r wire.Request) string { return r.ID }, Form: out.ID},
	{Name: "match_code", Cell: func(r wire.Request) string { return r.Match }},
	{Name: "state", Cell: func(r wire.Request) string { return string(r.State) }},
	{Name: "scope", Cell: func(r wire.Request) string { return r.Scopes }, Form: out.Scope},
	{Name: "resource", Cell: func(r wire.Request) string { return r.Resource }, Form: out.Scope},
	{Name: "ttl_seconds", Cell: func(r wire.Request) string { return out.Int(r.TTL) }},
	{Name: "task", Cell: func(r wire.Request) string { return r.TaskID }, Form: out.ID},
	{Name: "owner", Cell: func(r wire.Request) string { return r.Owner }},
	{Name: "runner", Cell: func(r wire.Request) string { return r.Runner }},
	{Name: "sandbox", Cell: func(r wire.Request) string { return r.Sandbox }},
	{Name: "tool", Cell: func(r wire.Request) string { return r.Tool }},
	{Name: "asked", Cell: func(r wire.Request) string { return strconv.Itoa(r.Asked) + " time(s)" }},
	{Name: "decided_by", Cell: func(r wire.Request) string {
		return strings.Join(r.Groups, " ") + ", quorum " + strconv.Itoa(r.Quorum)
	}},
	{Name: "created_at", Cell: func(r wire.Request) string { return out.Time(r.CreatedAt) }, Form: out.When},
	{Name: "expires_at", Cell: func(r wire.Request) string { return out.Time(r.ExpiresAt) }, Form: out.When},
	{Name: "votes", Cell: votes},
	{Name: "granted_scope", Cell: func(r wire.Request) string { return r.Granted }},
	{Name: "granted_ttl_seconds", Cell: func(r wire.Request) string { return out.Int(r.GrantedTTL) }},
	{Name: "grant_until", Cell: func(r wire.Request) string { return out.Time(r.GrantUntil) }, Form: out.When},
	{Name: "code", Cell: func(r wire.Request) string { return string(r.Code) }},
	{Name: "note", Cell: func(r wire.Request) string { return r.Note }},
	{Name: "digest", Cell: func(r wire.Request) string { return r.Digest }},
	{Name: "agent_says", Cell: func(r wire.Request) string { return agenttext.ShowLine(agentSays(r), 0) }},
	{Name: "notice", Cell: func(r wire.Request) string { return notices(agentSays(r)) }},
}

func votes(r wire.Request) string {
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

// agentSays returns the agent's reason as untrusted text, which only agenttext
// may display. A reason that is not a JSON string is empty.
func agentSays(r wire.Request) (text agenttext.Untrusted) {
	_ = json.Unmarshal(r.Reason, &text)
	return text
}

// notices returns the warnings about an agent's text, such as hidden characters.
func notices(u agenttext.Untrusted) string {
	_, notes := agenttext.Show(u, 0)
	parts := make([]string, len(notes))
	for i, n := range notes {
		parts[i] = n.Text
	}
	return strings.Join(parts, " ")
}

func newRequests(c *cli) *cobra.Command {
	return c.group("requests", "List and decide requests of agents", requestCommands{c}.requestsList(), requestCommands{c}.requestsShow(), requestCommands{c}.requestsWatch(), requestCommands{c}.requestsApprove(), requestCommands{c}.requestsDeny())
}

// requestFlags adds the flags that select requests.
func requestFlags(cmd *cobra.Command, f *client.RequestFilter) {
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of tasks of this owner")
	cmd.Flags().StringVar(&f.Group, "group", "", "routed to this group")
}

func (c requestCommands) requestsList() *cobra.Command {
	var f client.RequestFilter
	state := string(wire.RequestPending)
	cmd := &cobra.Command{Use: "list", Short: "List requests, newest first; by default those that wait for an approval", Args: cobra.NoArgs}
	cmd.Flags().Var(command.NewChoice(&state, "pending", "approved", "issued", "denied", "expired", "withdrawn"), "state", "in this state")
	all := cmd.Flags().Bool("all", false, "in every state")
	requestFlags(cmd, &f)
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		if err := c.about(cmd.Context(), o, &f.TaskID, nil, nil); err != nil {
			return err
		}
		if f.State = wire.RequestState(state); *all {
			f.State = ""
		}
		items, err := pages(*limit, func(p client.Page) (wire.List[wire.Request], error) {
			f.Page = p
			return o.Requests.List(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return listOf(cmd.Context(), c.cli, o, f.TaskID, requestColumns, items)
	})
	return c.output(c.remote(cmd))
}

// decision are the flags of approve and deny.
type decision struct {
	digest, note string
	yes          bool
}

func (d *decision) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.digest, "digest", "", "decide only if the facts still have this digest (see show)")
	cmd.Flags().StringVar(&d.note, "note", "", "note for the agent")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "decide on the current facts without confirmation")
}

// check refuses a shortened digest, and completes the id of the request.
func (d *decision) check(ctx context.Context, i ids, arg string) (string, error) {
	if err := approval.CheckDigest(d.digest); d.digest != "" && err != nil {
		return "", usage("--digest: "+broker.AsError(err).Public, "copy the digest from `ebb requests show "+out.Line(arg)+"`")
	}
	return i.change(ctx, arg)
}

// look fetches the request and makes sure that the decision is made on its
// facts: by their digest, by a confirmation at the terminal, or by --yes.
func (d *decision) look(c *cli, cmd *cobra.Command, o *client.Operator, id, verb string) (wire.Request, error) {
	r, err := o.Requests.Get(cmd.Context(), id)
	switch {
	case err != nil:
		return r, err
	case d.digest != "" || d.yes:
		return r, nil
	case !terminal(c.stdin) || !terminal(c.stdout):
		return r, usage("the facts of the request are not confirmed", "pass --digest "+r.Digest+" after `ebb requests show "+r.ID+"`, or --yes")
	}
	// The digest covers all facts, so the approver sees all of them (I7), and the summary last.
	if err := errors.Join((requestCommands{c}).showFacts(r), (requestCommands{c}).showRequest(r)); err != nil {
		return r, err
	}
	c.printf("%s? [y/N] ", verb)
	var word string
	if _, err := fmt.Fscanln(c.stdin, &word); err != nil || word != "y" && word != "yes" {
		return r, fail("nothing was decided", "run the command again to decide")
	}
	return r, nil
}

func (c requestCommands) requestsApprove() *cobra.Command {
	var d decision
	var scope []string
	var ttl time.Duration
	var target string
	cmd := &cobra.Command{Use: "approve REQUEST", Short: "Approve a request, as requested or narrower (default key: the local approver's)", Args: cobra.ExactArgs(1)}
	d.add(cmd)
	cmd.Flags().StringSliceVar(&scope, "scope", nil, "grant only this scope, within the requested one")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "grant at most this lifetime")
	cmd.Flags().StringVar(&target, "target", "", "name of the request's target; high risk needs the console too")
	noBrowser := cmd.Flags().Bool("no-browser", false, "if only the console can approve, print its page and do not open it")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		narrower, err := parseScopes(scope)
		if err != nil {
			return err
		}
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		id, err := d.check(cmd.Context(), c.requestIDs(o), args[0])
		if err != nil {
			return err
		}
		r, err := d.look(c.cli, cmd, o, id, "approve")
		if err != nil {
			return err
		}
		v := wire.ApprovalBody{Digest: r.Digest, Scopes: narrower.String(), TTL: int64(ttl / time.Second), Note: d.note, Target: target}
		if d.digest != "" {
			v.Digest = d.digest
		}
		if r, err = o.Requests.Approve(cmd.Context(), id, v); err != nil {
			if *noBrowser {
				return err
			}
			return c.stepUp(cmd.Context(), o, id, err)
		}
		return out.One(c.stdout, c.format, requestDetails, r)
	})
	return c.output(c.remote(cmd))
}

func (c requestCommands) requestsDeny() *cobra.Command {
	var d decision
	code := string(wire.DenyNotNeeded)
	cmd := &cobra.Command{Use: "deny REQUEST", Short: "Deny a request, with a reason (default key: the local approver's)", Args: cobra.ExactArgs(1)}
	d.add(cmd)
	cmd.Flags().Var(command.NewChoice(&code, "too_broad", "wrong_resource", "not_needed", "use_existing_grant", "ask_owner", "suspicious"), "code", "why, for the agent; suspicious also stops the task")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		id, err := d.check(cmd.Context(), c.requestIDs(o), args[0])
		if err != nil {
			return err
		}
		if _, err := d.look(c.cli, cmd, o, id, "deny"); err != nil {
			return err
		}
		r, err := o.Requests.Deny(cmd.Context(), id, wire.DenialBody{Digest: d.digest, Code: wire.DenyCode(code), Note: d.note})
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, requestDetails, r)
	})
	return c.output(c.remote(cmd))
}
