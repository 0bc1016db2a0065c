package policyset

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// The bounds of a draft. Policies that are loaded from a directory have the bounds of package
// policy only.
const (
	maxFiles = 32
	maxBytes = 256 << 10 // of all texts together
)

// File is one Cedar file.
type File struct {
	Name string `json:"name"` // ends in .cedar
	Text string `json:"text"`
}

// fileName is the form of a file name in a draft. The name has to be a valid name on disk as well,
// because a reader can save the draft as files.
var fileName = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,59}\.cedar$`)

// properName reports whether name is a valid file name in a draft.
func properName(name string) bool { return fileName.MatchString(name) && path.Base(name) == name }

// Load compiles the files that are in force. It accepts characters that Check refuses.
func Load(files []File) (*policy.Set, error) {
	texts := map[string][]byte{}
	for _, f := range files {
		if _, twice := texts[f.Name]; twice {
			return nil, &policy.LoadError{Problems: []policy.Problem{{File: f.Name, Text: "two files have this name"}}}
		}
		texts[f.Name] = []byte(f.Text)
	}
	return policy.Load(texts)
}

// Check compiles the files of a draft. It is stricter than Load: it refuses characters that a
// reviewer cannot see. The error is a *policy.LoadError that holds every problem.
func Check(files []File) (*policy.Set, error) {
	var problems []policy.Problem
	size := 0
	for _, f := range files {
		size += len(f.Text)
		if !properName(f.Name) {
			problems = append(problems, policy.Problem{File: "a file", Text: fmt.Sprintf("%.80q is not a valid name: use a letter or digit, then up to 59 of a-z 0-9 . _ -, and end it in .cedar", f.Name)})
			continue
		}
		problems = append(problems, hidden(f)...)
	}
	if len(files) > maxFiles {
		problems = append(problems, policy.Problem{File: "the draft", Text: fmt.Sprintf("%d files, and the limit is %d", len(files), maxFiles)})
	}
	if size > maxBytes {
		problems = append(problems, policy.Problem{File: "the draft", Text: fmt.Sprintf("%d bytes in all files, and the limit is %d", size, maxBytes)})
	}
	if len(problems) > 0 { // what is too large, or not what it seems, is not parsed
		return nil, &policy.LoadError{Problems: problems}
	}
	return Load(files)
}

// hidden returns one problem for each line with a character that a reviewer cannot see, or that an
// editor shows in another place (bidirectional controls).
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

// Problems returns the problems in an error of Load or Check, and nil for any other error.
func Problems(err error) []policy.Problem {
	if le, ok := errors.AsType[*policy.LoadError](err); ok {
		return le.Problems
	}
	return nil
}

// sorted returns a copy of files, sorted by name.
func sorted(files []File) []File {
	out := slices.Clone(files)
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// With returns files with f in place of the file of the same name. An empty text removes that
// file. Line ends become newlines, because HTML forms send CR LF.
func With(files []File, f File) []File {
	f.Text = strings.ReplaceAll(strings.ReplaceAll(f.Text, "\r\n", "\n"), "\r", "\n")
	out := slices.DeleteFunc(slices.Clone(files), func(x File) bool { return x.Name == f.Name })
	if strings.TrimSpace(f.Text) != "" {
		out = append(out, f)
	}
	return sorted(out)
}
