package policy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/scopes/nearest"
)

// maxNesting is the maximum depth of brackets: the Cedar parser recurses without a limit of its
// own.
const maxNesting = 64

// parse returns the policies of a file. After a syntax error it parses each policy alone, so that one error does not
// hide those of the other policies.
func (s source) parse() (cedar.PolicyList, []Problem) {
	switch {
	case len(s.text) > maxFileBytes:
		return nil, []Problem{{File: s.file, Text: fmt.Sprintf("larger than %d bytes", maxFileBytes)}}
	case !utf8.Valid(s.text):
		return nil, []Problem{{File: s.file, Text: "not UTF-8"}}
	}
	if line := tooDeep(s.code); line > 0 {
		return nil, []Problem{{File: s.file, Line: line, Text: fmt.Sprintf("brackets nested more than %d deep", maxNesting)}}
	}
	list, err := cedar.NewPolicyListFromBytes(s.file, s.text)
	if err == nil {
		return list, nil
	}
	list = nil
	var problems []Problem
	begins := s.statements()
	for i := 1; i < len(begins) && i <= maxPolicies; i++ {
		before := s.problem(begins[i-1], "")
		padded := strings.Repeat("\n", before.Line-1) + strings.Repeat(" ", before.Column-1) // positions stay those of the file
		one, err := cedar.NewPolicyListFromBytes(s.file, append([]byte(padded), s.text[begins[i-1]:begins[i]]...))
		list = append(list, one...)
		if err != nil {
			problems = append(problems, s.syntaxProblem(begins[i-1], err))
		}
	}
	if len(problems) == 0 { // each policy alone is valid
		problems = append(problems, s.syntaxProblem(0, err))
	}
	return list, problems
}

// The parser's texts: it reports the token after the wrong one.
var (
	parserPlace  = lazyregexp.New(`<input>:(\d+):(\d+)(?: "(?:[^"\\]|\\.)*")?: `)
	parserWanted = lazyregexp.New(`(?:exact )?got (.*) want (.*)$`)
)

// syntaxProblem translates an error of the parser about the policy at an offset.
func (s source) syntaxProblem(from int, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "parser error: ")
	at := from
	if m := parserPlace.FindStringSubmatchIndex(text); m != nil {
		line, _ := strconv.Atoi(text[m[2]:m[3]])
		column, _ := strconv.Atoi(text[m[4]:m[5]])
		at, text = s.offset(line, column), text[m[1]:]
	}
	if word, is := strings.CutPrefix(text, "unexpected effect: "); is {
		text = "got " + word + " want permit` or `forbid"
	}
	if m := parserWanted.FindStringSubmatch(text); m != nil {
		if m[1] == "" {
			return s.problem(at, fmt.Sprintf("syntax error: the policy ends where `%s` is missing", m[2]))
		}
		if i := bytes.LastIndex(s.text[from:max(from, at)], []byte(m[1])); i >= 0 {
			at = from + i
		}
		return s.problem(at, fmt.Sprintf("syntax error: found `%s` where `%s` is expected", m[1], m[2])+meant(m[1], m[2]))
	}
	for parser, plain := range plainWords {
		text = strings.ReplaceAll(text, parser, plain)
	}
	return s.problem(at, "syntax error before this place: "+text)
}

// meant asks for the word that is expected where a similar one was found.
func meant(found, want string) string {
	if best := nearest.Of(found, strings.Split(want, "` or `")); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// plainWords replaces the parser's words.
var plainWords = map[string]string{
	"invalid primary": "a value or an expression is missing", "expected ident or reserved keyword": "a name is expected", "expected ident or string": "a name or a string is expected",
	"expected ident after dot": "a name is expected after the dot", "expected string literal": "a string is expected",
}

// tooDeep returns the line on which brackets are nested beyond maxNesting, or 0. code is the text of a source without
// comments and strings.
func tooDeep(code []byte) int {
	line, depth := 1, 0
	for _, c := range code {
		switch c {
		case '\n':
			line++
		case '(', '[', '{':
			if depth++; depth > maxNesting {
				return line
			}
		case ')', ']', '}':
			depth--
		}
	}
	return 0
}
