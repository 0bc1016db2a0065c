package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// documented is the tree of commands without the environment of this process.
func documented() *cobra.Command { return newRoot(&cli{format: out.Table}) }

// commandsOf lists the commands that users see, without groups and topics if
// leaves is set.
func commandsOf(root *cobra.Command, leaves bool) (all []*cobra.Command) {
	walkCommands(root, func(cmd *cobra.Command) {
		for up := cmd; up != nil; up = up.Parent() {
			if up.Hidden {
				return
			}
		}
		if topic := !cmd.Runnable() && !cmd.HasSubCommands(); !leaves || !topic && (!cmd.HasSubCommands() || cmd.Name() == "demo") {
			all = append(all, cmd)
		}
	})
	return all
}

// TestExamples: every command has an example, and each line of an example that
// begins with ebb is a valid command line of that command.
func TestExamples(t *testing.T) {
	t.Parallel()
	unused := maps.Clone(examples)
	for _, cmd := range commandsOf(documented(), true) {
		delete(unused, cmd.CommandPath())
		if cmd.Example == "" {
			t.Errorf("%s has no example: add one to examples.go", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			words := shellWords(t, line)
			if words[0] != "ebb" {
				continue // a line that gives the command to another program
			}
			root := documented() // flags keep their values
			found, args, err := root.Find(words[1:])
			if err != nil || found.CommandPath() != cmd.CommandPath() {
				t.Errorf("%q is an example of %s: %v", line, cmd.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(args); err != nil {
				t.Errorf("%q: %v", line, err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	for path := range unused {
		t.Errorf("examples.go has an example of %q, which is no command", path)
	}
}

// shellWords splits the first command of a shell line.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	for _, word := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		if word == "|" {
			break
		}
		if !strings.HasPrefix(word, ">") && !strings.HasPrefix(word, "<") {
			words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(word))
		}
	}
	if len(words) == 0 {
		t.Fatalf("%q is no command", line)
	}
	return words
}

// TestCommandGroups: every command of `ebb --help` is in a group.
func TestCommandGroups(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	c := &cli{stdin: strings.NewReader(""), stdout: &text, stderr: &text, format: out.Table}
	if code := c.run(t.Context(), []string{"--help"}); code != exitOK {
		t.Fatal(code)
	}
	for _, want := range []string{"Decide requests:", "\n  completion ", "\n  help ", "Additional help topics:", "ebb exit-codes"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "Additional Commands:") {
		t.Errorf("a command is in no group:\n%s", text.String())
	}
	for name := range aliases {
		if cmd, _, err := documented().Find([]string{aliases[name]}); err != nil || cmd.Name() != name {
			t.Errorf("%s is %v, %v", aliases[name], cmd, err)
		}
	}
}

// TestVersionFlag: --version prints one line, like the commands that scripts
// know.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	c := &cli{stdin: strings.NewReader(""), stdout: &text, stderr: &text, format: out.Table}
	if code := c.run(t.Context(), []string{"--version"}); code != exitOK || !strings.HasPrefix(text.String(), "ebb "+thisVersion().Version) || strings.Count(text.String(), "\n") != 1 {
		t.Errorf("exit code %d, %q", code, text.String())
	}
}

// TestEnvironmentTopic: `ebb help environment` names every variable that the
// commands read.
func TestEnvironmentTopic(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.env\("(EBB_[A-Z_]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(topics[0].text, "  "+m[1]+" ") {
				t.Errorf("%s reads %s, and `ebb help environment` does not name it", file, m[1])
			}
		}
	}
}

// TestCommandReference compares docs/reference/cli.md with the help of all
// commands. With -update it writes the page.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	root := documented()
	var page strings.Builder
	page.WriteString("# Commands\n\nThe help of every command. This page is written by `go test ./cmd/ebb -run TestCommandReference -update`.\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&page, "\n%s\n\n", group.Title)
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && !cmd.Hidden {
				fmt.Fprintf(&page, "- [%s](#%s): %s\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
			}
		}
	}
	for _, cmd := range commandsOf(root, false) {
		cmd.InitDefaultHelpFlag()
		text := cmd.Short
		if cmd.Long != "" {
			text = cmd.Long
		}
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n", cmd.CommandPath(), text)
		if cmd.Runnable() || cmd.HasSubCommands() {
			fmt.Fprintf(&page, "\n%s", cmd.UsageString())
		}
		page.WriteString("```\n")
	}
	file := filepath.Join("..", "..", "docs", "reference", "cli.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page.String() {
		t.Error("docs/reference/cli.md is not the help of the commands: run go test ./cmd/ebb -run TestCommandReference -update")
	}
}

var manDir = flag.String("man", "", "directory that TestManPages fills; default: a temporary one")

// TestManPages writes a man page for every command to the directory of -man.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := documented()
	root.DisableAutoGenTag = true // the same pages for the same commands
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ebb", Manual: "ebb"}, dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || !slices.Contains(pages, filepath.Join(dir, "ebb-task-open.1")) || len(pages) < 60 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ebb-task-open.1"))
	if err != nil || !strings.Contains(string(text), "EXAMPLE") {
		t.Errorf("%s, %v", text, err)
	}
}
