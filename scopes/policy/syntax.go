package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
)

// maxNesting is the maximum depth of brackets: the Cedar parser recurses without a limit of its
// own.
const maxNesting = 64

func parseFile(name string, text []byte) (cedar.PolicyList, *Problem) {
	switch {
	case len(text) > maxFileBytes:
		return nil, &Problem{File: name, Text: fmt.Sprintf("larger than %d bytes", maxFileBytes)}
	case !utf8.Valid(text):
		return nil, &Problem{File: name, Text: "not UTF-8"}
	}
	if line := tooDeep(text); line > 0 {
		return nil, &Problem{File: name, Line: line, Text: fmt.Sprintf("brackets nested more than %d deep", maxNesting)}
	}
	list, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		return nil, syntaxProblem(name, err)
	}
	return list, nil
}

// syntaxProblem takes the line from the parser's text, which is the only place that has it.
func syntaxProblem(name string, err error) *Problem {
	text := strings.TrimPrefix(err.Error(), "parser error: ")
	problem := &Problem{File: name, Text: text}
	_, rest, found := strings.Cut(text, "<input>:")
	var line, column int
	if found {
		if n, _ := fmt.Sscanf(rest, "%d:%d", &line, &column); n == 2 {
			problem.Line = line
			place := fmt.Sprintf("<input>:%d:%d", line, column)
			problem.Text = strings.Replace(text, place, fmt.Sprintf("column %d", column), 1)
		}
	}
	return problem
}

// tooDeep returns the line on which brackets are nested beyond maxNesting, or 0. Strings and comments do not count.
func tooDeep(text []byte) int {
	line, depth := 1, 0
	quoted, comment := false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			line++
			comment = false
		case comment:
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			comment = true
		case c == '(' || c == '[' || c == '{':
			if depth++; depth > maxNesting {
				return line
			}
		case c == ')' || c == ']' || c == '}':
			depth--
		}
	}
	return 0
}
