package main

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// policyCommands holds the sub-commands of ebb policy.
type policyCommands struct{ *cli }

func newPolicy(c *cli) *cobra.Command {
	return c.group("policy", "Read, check and try policies", policyCommands{c}.policyShow(), policyCommands{c}.policyCheck(), policyCommands{c}.policyTest(), policyCommands{c}.policyExplain(), policyCommands{c}.policyReplay())
}

// policyDir returns the directory that a command names, or else the configured
// one; "" for the starter policy.
func (c policyCommands) policyDir(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	cfg, err := c.loadConfig()
	return cfg.PolicyDir, err
}

// loadPolicies loads a directory; "" is the starter policy.
func loadPolicies(dir string) (*policy.Set, error) {
	if dir == "" {
		return policy.Starter(), nil
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, usage("the policy directory cannot be read: "+err.Error(), "create it with a *.cedar file: `ebb policy show` prints the starter policy")
	}
	set, err := policy.LoadDir(os.DirFS(dir))
	if le, ok := errors.AsType[*policy.LoadError](err); ok {
		lines := make([]string, len(le.Problems))
		for i, p := range le.Problems {
			lines[i] = "  " + out.Line(p.String())
		}
		return nil, fail(strconv.Itoa(len(lines))+" problem(s) in the policies of "+dir+"\n"+strings.Join(lines, "\n"), "`ebb policy show --schema` prints the schema for policies")
	}
	if err != nil {
		return nil, usage(err.Error(), "name a directory with *.cedar files")
	}
	return set, nil
}

func (c policyCommands) policyShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show [DIR]", Short: "Print the policies: the configured ones, or the built-in starter policy", Args: cobra.MaximumNArgs(1)}
	schema := cmd.Flags().Bool("schema", false, "print the Cedar schema that policies are checked against")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		if *schema {
			c.printf("%s", policy.Schema())
			return nil
		}
		dir, err := c.policyDir(args)
		if err != nil {
			return err
		}
		if dir == "" {
			c.printf("%s", policy.StarterSource())
			return nil
		}
		files, err := policysource.ReadDir(os.DirFS(dir))
		if err != nil {
			return usage("the policy directory "+dir+" cannot be read: "+err.Error(), "name a directory with *.cedar files")
		}
		for _, f := range files {
			c.printf("// %s\n%s\n", out.Line(f.Name), f.Text)
		}
		return nil
	})
	return cmd
}

func (c policyCommands) policyCheck() *cobra.Command {
	cmd := &cobra.Command{Use: "check [DIR]", Short: "Load policies as the server would and report every problem", Args: cobra.MaximumNArgs(1)}
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		dir, err := c.policyDir(args)
		if err != nil {
			return err
		}
		set, err := loadPolicies(dir)
		if err != nil {
			return err
		}
		for _, note := range set.Notes() {
			c.sayf("note: %s\n", out.Line(note.String()))
		}
		c.printf("ok: %s, version %s\n", out.Count(set.Len(), "policy", "policies"), set.Version())
		return nil
	})
	return cmd
}

var testColumns = []out.Column[policy.Result]{
	{Name: "result", Cell: func(r policy.Result) string {
		if r.OK {
			return "ok"
		}
		return "FAILED"
	}},
	{Name: "file", Cell: func(r policy.Result) string { return r.File }},
	{Name: "name", Cell: func(r policy.Result) string { return r.Name }},
	{Name: "diff", Cell: func(r policy.Result) string { return strings.Join(r.Diff, "; ") }, Form: out.Prose},
}

func (c policyCommands) policyTest() *cobra.Command {
	cmd := &cobra.Command{Use: "test [DIR]", Short: "Run the golden tests (*.test.yaml) beside the policies", Args: cobra.MaximumNArgs(1)}
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		dir, err := c.policyDir(args)
		if err != nil {
			return err
		}
		if dir == "" {
			return usage("the starter policy is tested with ebb itself", "name a directory with *.cedar and *.test.yaml files")
		}
		set, err := loadPolicies(dir)
		if err != nil {
			return err
		}
		files, err := policy.TestFiles(os.DirFS(dir))
		if err != nil {
			return usage(err.Error(), "name a readable directory")
		}
		report := policy.RunTests(set, files)
		if err := out.List(c.stdout, c.format, testColumns, report.Results); err != nil {
			return err
		}
		if !report.OK() {
			return fail(strconv.Itoa(report.Failed)+" of "+strconv.Itoa(report.Failed+report.Passed)+" tests failed", "correct the policy or the test; having no tests is a failure too")
		}
		return nil
	})
	return c.output(cmd)
}

// countLine is one line of the comparison of two policy sets over past
// decisions.
type countLine struct {
	What    string `json:"what"`
	N       int    `json:"n"`
	Wider   bool   `json:"wider"`
	Refused int    `json:"refused"` // how many of these a person denied
}

var countColumns = []out.Column[countLine]{
	{Name: "what", Cell: func(l countLine) string { return l.What }},
	{Name: "n", Cell: func(l countLine) string { return strconv.Itoa(l.N) }},
	{Name: "wider", Cell: func(l countLine) string {
		if l.Wider {
			return "WIDER"
		}
		return ""
	}},
	{Name: "denied_by_a_person", Cell: func(l countLine) string { return strconv.Itoa(l.Refused) }},
}

// comparePast counts the decisions of both sets on all past requests.
func (c policyCommands) comparePast(live string, draft *policy.Set, past replay.Past, strict bool) error {
	if live == "starter" {
		live = ""
	}
	before, err := loadPolicies(live)
	if err != nil {
		return err
	}
	got := replay.Compared(before, draft, past, func(int) bool { return true })
	lines := []countLine{
		{What: "in force: allowed", N: got.Live.Granted}, {What: "in force: need approval", N: got.Live.Asked}, {What: "in force: denied", N: got.Live.Denied},
		{What: "draft: allowed", N: got.Draft.Granted}, {What: "draft: need approval", N: got.Draft.Asked}, {What: "draft: denied", N: got.Draft.Denied},
	}
	for _, m := range got.Moves {
		lines = append(lines, countLine{What: policy.Move(m.From, m.To), N: m.N, Wider: m.Wider, Refused: m.Refused})
	}
	if err := out.List(c.stdout, c.format, countColumns, lines); err != nil {
		return err
	}
	c.sayf("%d decisions replayed, %d differ, %d of them wider; %d skipped: the export lacks the start of their task\n", got.Looked, got.Changed, got.Wider, past.Skipped)
	if strict && got.Wider > 0 {
		return fail("the draft grants more than the live policies", "see the lines marked WIDER")
	}
	return nil
}
