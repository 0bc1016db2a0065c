package policyset

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ebb/scopes/policy"
)

// The bounds of a draft. What a directory holds has those of package policy alone.
const (
	MaxFiles = 32
	MaxBytes = 256 << 10 // of all texts together
)

// File is one Cedar file.
type File struct {
	Name string `json:"name"` // ends in .cedar
	Text string `json:"text"`
}

// fileName is what a file of a draft may be called. It is the name under which somebody
// may save it.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,59}\.cedar$`)

// properName reports whether a file of a draft may be called this.
func properName(name string) bool { return fileName.MatchString(name) && path.Base(name) == name }

// Load makes a set of files that are in force, whoever wrote them.
func Load(files []File) (*policy.Set, error) {
	texts := map[string][]byte{}
	for _, f := range files {
		if _, twice := texts[f.Name]; twice {
			return nil, &policy.LoadError{Problems: []policy.Problem{{File: f.Name, Text: "there are two files of this name"}}}
		}
		texts[f.Name] = []byte(f.Text)
	}
	return policy.Load(texts)
}

// Check makes a set of the files of a draft. It is stricter than Load: in what people
// review, nothing may hide. The error is a *policy.LoadError with every problem.
func Check(files []File) (*policy.Set, error) {
	var problems []policy.Problem
	size := 0
	for _, f := range files {
		size += len(f.Text)
		if !properName(f.Name) {
			problems = append(problems, policy.Problem{File: "a file", Text: "a name is up to 60 of a-z, 0-9, dot, dash and underscore, and ends in .cedar"})
			continue
		}
		problems = append(problems, hidden(f)...)
	}
	if len(files) > MaxFiles {
		problems = append(problems, policy.Problem{File: "the draft", Text: fmt.Sprintf("more than %d files", MaxFiles)})
	}
	if size > MaxBytes {
		problems = append(problems, policy.Problem{File: "the draft", Text: fmt.Sprintf("more than %d bytes in all", MaxBytes)})
	}
	if len(problems) > 0 { // what is too large, or not what it seems, is not parsed
		return nil, &policy.LoadError{Problems: problems}
	}
	return Load(files)
}

// hidden are the characters of a file that somebody who reviews it would not see, or
// would see in another place: one problem a line.
func hidden(f File) (problems []policy.Problem) {
	for n, line := range strings.Split(f.Text, "\n") {
		for i, r := range line {
			if r == utf8.RuneError {
				if _, size := utf8.DecodeRuneInString(line[i:]); size == 1 {
					problems = append(problems, policy.Problem{File: f.Name, Line: n + 1, Text: "not UTF-8"})
					break
				}
			}
			if r != '\t' && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) && r != ' ' ||
				unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
				problems = append(problems, policy.Problem{File: f.Name, Line: n + 1, Text: fmt.Sprintf("the character U+%04X cannot be seen; in a string, write it as \\u{%x}", r, r)})
				break
			}
		}
		if len(problems) >= 20 {
			return problems
		}
	}
	return problems
}

// Problems are those of an error of Load or Check; nil when it is another.
func Problems(err error) []policy.Problem {
	if le, ok := errors.AsType[*policy.LoadError](err); ok {
		return le.Problems
	}
	return nil
}

// sorted is files by name.
func sorted(files []File) []File {
	out := slices.Clone(files)
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// With is files with this one in place of its namesake; an empty text removes it. Line
// ends are made newlines: forms send others.
func With(files []File, f File) []File {
	f.Text = strings.ReplaceAll(strings.ReplaceAll(f.Text, "\r\n", "\n"), "\r", "\n")
	out := slices.DeleteFunc(slices.Clone(files), func(x File) bool { return x.Name == f.Name })
	if strings.TrimSpace(f.Text) != "" {
		out = append(out, f)
	}
	return sorted(out)
}
