package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/wire"
)

func (c requestCommands) requestsShow() *cobra.Command {
	var facts bool
	cmd := &cobra.Command{
		Use: "show REQUEST", Short: "Show the facts for a decision on one request, their digest, and the agent's reason", Args: cobra.ExactArgs(1),
		Long: `Show on one screen what a decision depends on: the risk and its reasons, the scope,
the task, the policies that ask, the votes so far, and the digest of the facts. The
agent's reason comes last, in a frame: ebb does not verify it.

REQUEST is the id of a request (req_...), or a unique prefix of it. --facts adds the
whole facts as JSON, to which an approval is bound; -o wide prints every member.`,
	}
	cmd.Flags().BoolVar(&facts, "facts", false, "also print the whole facts as JSON")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(approverKey)
		if err != nil {
			return err
		}
		id, err := c.requestIDs(o).read(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r, err := o.Requests.Get(cmd.Context(), id)
		if err != nil {
			return err
		}
		switch c.format {
		case out.Table:
			err = c.showRequest(r)
		case out.Wide:
			facts = true
			err = out.One(c.stdout, c.format, requestDetails, r)
		default:
			return out.One(c.stdout, c.format, requestDetails, r)
		}
		if err != nil || !facts {
			return err
		}
		return c.showFacts(r)
	})
	return c.output(c.remote(cmd))
}

// showFacts prints the facts to which an approval would be bound, one per line.
func (c requestCommands) showFacts(r wire.Request) error {
	var b bytes.Buffer
	if err := json.Indent(&b, r.Facts, "", "  "); err != nil {
		return fmt.Errorf("parse the facts of the request: %w", err)
	}
	c.printf("facts\n")
	for line := range strings.Lines(b.String()) {
		c.printf("  %s\n", out.Whole(strings.TrimRight(line, "\n")))
	}
	return nil
}

// sheet is the text of one request, at most out.Width cells wide.
type sheet struct {
	b   strings.Builder
	now time.Time
}

// sheetNames is the width of the names at the left of a sheet.
const sheetNames = 11

// add writes a name and its values, each on lines of its own. Empty values are
// left out.
func (s *sheet) add(name string, values ...string) {
	for _, v := range values {
		if v == "" {
			continue
		}
		for _, line := range out.Wrap(out.Whole(v), out.Width-sheetNames) {
			fmt.Fprintf(&s.b, "%-*s%s\n", sheetNames, name, line)
			name = ""
		}
	}
}

// when formats a time and its distance from now.
func (s *sheet) when(t time.Time) string {
	return out.Relative(t, s.now) + " (" + out.Time(t) + ")"
}

// showRequest prints the facts for a decision first, what the agent says last,
// and then the commands that decide.
func (c requestCommands) showRequest(r wire.Request) error {
	s := &sheet{now: time.Now()}
	s.state(r)
	f, err := broker.Request{Facts: r.Facts, Digest: r.Digest}.Sheet()
	complete := err == nil && f.Risk != nil && f.Effect != nil && f.Then != nil
	switch {
	case err != nil:
		s.add("risk", broker.AsError(err).Public)
	case !complete:
		s.add("risk", "An older version of ebb received this request: if it is approved, the agent has to request again.")
	default:
		s.facts(f)
	}
	s.votes(r)
	s.add("digest", r.Digest)
	s.agent(r)
	if r.State == wire.RequestPending {
		s.commands(r, complete && f.Understood(), complete && f.Risk.Level == risk.High)
	}
	_, err = c.stdout.Write([]byte(s.b.String()))
	return err
}

func (s *sheet) state(r wire.Request) {
	s.add("request", strings.TrimSpace(r.ID+"  "+r.Match))
	state := string(r.State)
	switch {
	case r.State == wire.RequestPending:
		state += ", expires " + s.when(r.ExpiresAt)
	case !r.DecidedAt.IsZero():
		state += " " + s.when(r.DecidedAt)
	}
	if r.Asked > 1 {
		state += ", requested " + strconv.Itoa(r.Asked) + " times"
	}
	s.add("state", state)
	if r.Granted != "" {
		s.add("granted", r.Granted, "for "+out.Seconds(r.GrantedTTL)+", can be used until "+out.Time(r.GrantUntil))
	}
	s.add("code", string(r.Code))
	s.add("note", r.Note)
}

func (s *sheet) facts(f broker.FactSheet) {
	level := []string{strings.ToUpper(string(f.Risk.Level))}
	for _, reason := range f.Risk.Reasons {
		level = append(level, reason.Text)
	}
	if !f.Understood() {
		level = append(level, "It can only be denied.")
	}
	s.add("risk", level...)
	s.add("scope", f.Scope.String())
	s.add("resource", f.Resource)
	limit := "only this"
	if f.Content.NeedsPeople() { // the credential allows everything within its scope, too
		limit = "one text"
	}
	s.add(limit, onlyThis(f.Content)...)
	s.sql(f.Content)
	if f.MaxAmount != nil {
		s.add("may spend", f.MaxAmount.String()+", in its task and all tasks below it together")
	}
	s.add("effect", f.Effect.Sentences...)
	for i, row := range f.Then.Changes {
		name, text := "", row.Asked+" (as now)"
		if i == 0 {
			name = "changes"
		}
		switch {
		case row.Changed && row.Now == "":
			text = "nothing -> " + row.Asked + " CHANGED"
		case row.Changed:
			text = row.Now + " -> " + row.Asked + " CHANGED"
		case row.Now != row.Asked:
			text = row.Now + " -> " + row.Asked
		}
		s.add(name, string(row.Field)+": "+text)
	}
	life := "for " + out.Seconds(int64(f.TTL))
	switch {
	case f.Content != nil:
		life += "; the approval is used up when the request is sent"
	case f.Reuse > 0:
		life += "; the approval can be reused for " + out.Seconds(int64(f.Reuse))
	}
	if !f.EndsBy.IsZero() {
		life += "; all of it ends " + s.when(f.EndsBy)
	}
	s.add("lifetime", life, "revocation "+revocability(wire.Class(f.Class), int64(f.Bound)))
	s.add("delivery", delivery(f))
	s.add("task", f.TaskName+" ("+f.TaskKind+")  "+f.TaskID, out.Pairs(f.Labels))
	s.add("owner", f.Owner+", runner "+f.Runner)
	s.add("sandbox", f.Sandbox.ID, "evidence of "+f.Sandbox.Attestor+" ("+f.Sandbox.Class+"): "+f.Sandbox.Subject)
	s.add("delegated", strings.Join(f.Above, " -> "))
	s.add("tool", f.Tool)
	s.add("policy", append([]string{strings.Join(f.Rules, ", ")}, f.Why...)...)
	s.add("history", conduct(f)...)
}

// onlyThis returns lines about the one request or text that an approval is for.
func onlyThis(c *content.Facts) (lines []string) {
	if c == nil {
		return nil
	}
	for _, o := range c.Ordered() {
		text, details := c.Title(o)
		if o.Amount != "" {
			text += "  " + o.Amount
		}
		for _, name := range details {
			text += "  " + name + "=" + audit.Quote(o.Details[name]) // so that one cannot look like another
		}
		lines = append(lines, text)
	}
	if c.Body != "" {
		lines = append(lines, "sha256 of the body: "+c.Body)
	}
	if !c.NeedsPeople() {
		lines = append(lines, "besides: any requests with GET or HEAD within the scopes")
	}
	return lines
}

// sql prints the SQL text that an approval allows once, in a frame that the text cannot leave.
func (s *sheet) sql(c *content.Facts) {
	if !c.NeedsPeople() {
		return
	}
	s.b.WriteString("SQL text of the agent, allowed once beside the scope:\n")
	lines, notes := agenttext.Code(agenttext.From(c.Text))
	for _, line := range lines {
		for _, part := range out.Pieces(line, sheetFrame) {
			s.b.WriteString("| " + part + "\n")
		}
	}
	for _, n := range notes {
		s.add("notice", n.Text)
	}
}

// delivery returns a sentence that names the receiver of the credential.
func delivery(f broker.FactSheet) string {
	switch {
	case f.CouldStay:
		return "the sandbox receives the credential, although egress could add it to requests"
	case f.Delivery == "egress":
		return "egress adds the credential to requests; the sandbox does not receive it"
	}
	return "the sandbox receives the credential"
}

// conduct returns lines about earlier requests and violations of the task.
func conduct(f broker.FactSheet) []string {
	var lines []string
	if e := f.Then.Earlier; e.Asked > 0 {
		text := fmt.Sprintf("requested %d times before: %d approved, %d denied", e.Asked, e.Approved, e.Denied)
		if e.LastBy != "" {
			text += "; the last was " + string(e.Last) + " by " + e.LastBy
		}
		lines = append(lines, text)
	}
	if f.Then.Denials > 0 {
		lines = append(lines, fmt.Sprintf("%d requests of this task were denied", f.Then.Denials))
	}
	if f.Violations > 0 {
		lines = append(lines, fmt.Sprintf("VIOLATIONS: %d attempts of this task that only an attacker or a bug makes", f.Violations))
	}
	if len(f.Taint) > 0 {
		lines = append(lines, "the task has read untrusted sources: "+strings.Join(f.Taint, ", "))
	}
	return lines
}

// votes prints the required approvers and the votes so far.
func (s *sheet) votes(r wire.Request) {
	need := fmt.Sprintf("%d of %s", r.Quorum, strings.Join(r.Groups, ", "))
	if len(r.Rules) > 1 {
		var each []string
		for _, rule := range r.Rules {
			each = append(each, fmt.Sprintf("%d of %s (%s)", rule.Quorum, strings.Join(rule.Groups, ", "), rule.ID))
		}
		need = strings.Join(each, " and ")
	}
	so := votes(r)
	if so == "" {
		so = "none"
	}
	s.add("approvers", need+"; votes so far: "+so)
}

// Bounds of the agent's text on the screen.
const (
	sheetAgent = 1000 // code points
	sheetLines = 12
	sheetFrame = 80 - len("| ") // cells: a terminal of 80 columns breaks longer lines, and the rest leaves the frame
)

// agent prints the agent's reason in a frame that its text cannot leave.
func (s *sheet) agent(r wire.Request) {
	u := agentSays(r)
	text, notes := agenttext.Show(u, sheetAgent)
	if text == "" {
		s.add("agent", "gave no reason")
		return
	}
	s.b.WriteString("the agent says, which ebb does not verify:\n")
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, out.Wrap(line, sheetFrame)...)
	}
	for i, line := range lines {
		if i == sheetLines {
			fmt.Fprintf(&s.b, "(%d more lines: -o wide)\n", len(lines)-i)
			break
		}
		s.b.WriteString("| " + line + "\n")
	}
	for _, n := range notes {
		s.add("notice", n.Text)
	}
}

// commands prints the commands that decide.
func (s *sheet) commands(r wire.Request, approvable, high bool) {
	switch {
	case approvable && high:
		s.b.WriteString("-> approve it in the console, which high risk requires: ebb console\n")
	case approvable:
		fmt.Fprintf(&s.b, "-> ebb requests approve %s \\\n     --digest %s\n", out.Whole(r.ID), out.Whole(r.Digest))
	}
	fmt.Fprintf(&s.b, "-> ebb requests deny %s --code not_needed --note TEXT\n", out.Whole(r.ID))
}
