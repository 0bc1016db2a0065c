package doctest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Page is a parsed Markdown page.
type Page struct {
	Needs []string // names of counterparts
	Steps []Step   // in the order of the page
}

// Step is one block that has an effect.
type Step struct {
	Line       int    // of the first line of Text, from 1
	Text       string // with a final newline
	File       string // if not empty: the name of the file to write
	Background bool
	Exit       int     // expected exit code
	Want       *Output // nil: any output
}

// Output is the text block after a step.
type Output struct {
	Line int // of the first line of Text, from 1
	Text string
}

var (
	needs = regexp.MustCompile(`^<!-- needs: ([a-z0-9 -]+) -->$`)
	// anyFence matches every fence of CommonMark, and those in lists and quotations, so that a block
	// in a form that Parse does not know is an error and not skipped.
	anyFence = regexp.MustCompile("^[ \t>*+0-9.-]*(```|~~~)")
	opening  = regexp.MustCompile("^```([a-z0-9]*)((?: [a-z-]+(?:=[^ ]+)?)*)$")
)

// Parse reads a page. Its errors begin with the number of the line.
func Parse(text string) (*Page, error) {
	p := &Page{}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	expects := -1 // index of the step whose output the next block may show
	for i := 0; i < len(lines); i++ {
		if m := needs.FindStringSubmatch(lines[i]); m != nil {
			p.Needs = append(p.Needs, strings.Fields(m[1])...)
		}
		if !anyFence.MatchString(lines[i]) {
			continue
		}
		m := opening.FindStringSubmatch(lines[i])
		if m == nil {
			return nil, fmt.Errorf("%d: fence %q is not in a form that runs: write ```LANGUAGE at the start of the line, then background, no-run, exit=N or file=NAME", i+1, lines[i])
		}
		first := i + 1
		for i = first; i < len(lines) && lines[i] != "```"; i++ {
			if anyFence.MatchString(lines[i]) {
				return nil, fmt.Errorf("%d: the block that starts here is not closed before line %d", first, i+1)
			}
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%d: the block that starts here is not closed", first)
		}
		body := strings.Join(append(lines[first:i:i], ""), "\n")
		if m[1] == "text" && m[2] == "" {
			if expects >= 0 && body != "" && strings.Trim(body, ". \n") == "" {
				return nil, fmt.Errorf("%d: an expected output of %q alone compares nothing: show a line of the output, or leave the block out", first, rest)
			}
			if expects >= 0 {
				p.Steps[expects].Want = &Output{first + 1, body}
			}
			expects = -1
			continue
		}
		step, runs, err := newStep(m[1], strings.Fields(m[2]))
		if err != nil {
			return nil, fmt.Errorf("%d: %w", first, err)
		}
		expects = -1
		if runs {
			step.Line, step.Text = first+1, body
			p.Steps = append(p.Steps, step)
			if step.File == "" {
				expects = len(p.Steps) - 1
			}
		}
	}
	return p, nil
}

// newStep reads the words after a fence. runs is false for a block that is only shown.
func newStep(language string, words []string) (s Step, runs bool, err error) {
	switch language {
	case "bash", "shell", "console", "zsh":
		return s, false, fmt.Errorf("language %q never runs: write sh, or sh no-run", language)
	}
	if len(words) > 1 {
		return s, false, fmt.Errorf("words %q: a block has at most one", words)
	}
	if len(words) == 0 {
		return s, language == "sh", nil
	}
	name, value, _ := strings.Cut(words[0], "=")
	switch {
	case name == "file" && filepath.IsLocal(value):
		s.File = value
		return s, true, nil
	case language != "sh":
	case words[0] == "no-run":
		return s, false, nil
	case words[0] == "background":
		s.Background = true
		return s, true, nil
	case name == "exit":
		if s.Exit, err = strconv.Atoi(value); err == nil && s.Exit > 0 && s.Exit < 256 {
			return s, true, nil
		}
	}
	return s, false, fmt.Errorf("word %q after %q: a block of sh has background, no-run or exit=N (1 to 255); every block may have file=NAME", words[0], language)
}
