package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/ebb-broker/ebb/scopes/amount"
)

// The limits of Load.
const (
	maxFileBytes = 256 << 10
	maxPolicies  = 1000
)

// Set is a loaded, validated and immutable set of policies, safe for concurrent use. The zero Set
// has no policies: it denies.
type Set struct {
	rules   []*rule // sorted by id
	version string
	notes   []Problem
}

// rule is one policy with its annotations and its three-valued form.
type rule struct {
	id, why   string
	at        place
	forbid    bool
	ask       []string // groups; nil when no approval is needed
	quorum    int
	maxTTL    time.Duration // 0 = unlimited
	maxAmount amount.Limits // nil = unlimited
	egress    bool
	policy    *cedar.Policy
	clauses   []clause
	scope     []*node  // the action and resource clauses that compare with names; unlike conditions they cannot fail
	resources []target // the resources that the policy names, with their providers, for suggesting a smaller request
	actions   []string // the actions that the policy names
}

type place struct {
	file string
	line int
}

// Problem is one reason why policies were not loaded.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // 1-based; 0 = the file as a whole
	Column int    `json:"column,omitempty"` // in characters, 1-based; 0 = the line as a whole
	Text   string `json:"problem"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	if p.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// LoadError lists all problems of the files, sorted by file and line.
type LoadError struct {
	Problems []Problem
}

func (e *LoadError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "policy: not loaded:\n" + strings.Join(lines, "\n")
}

// LoadDir loads every `*.cedar` file at the top of fsys. No file is an error: a missing policy
// directory must not count as a decision to have no policies.
func LoadDir(fsys fs.FS) (*Set, error) {
	if _, err := fs.Stat(fsys, "."); err != nil {
		return nil, fmt.Errorf("policy: the policy directory cannot be read: %w", err)
	}
	names, err := fs.Glob(fsys, "*.cedar")
	if err != nil {
		return nil, fmt.Errorf("policy: list policy files: %w", err)
	}
	files := map[string][]byte{}
	var failed []error
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			failed = append(failed, fmt.Errorf("policy: read %s: %w", name, err))
			continue
		}
		files[name] = text
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	return Load(files)
}

// Load parses and validates policies, by file name. It loads all or none: the error is a
// *[LoadError] with every problem. At least one policy is required; to deny everything, write a
// forbid.
func Load(files map[string][]byte) (*Set, error) {
	check, err := newChecker()
	if err != nil {
		return nil, err
	}
	var rules []*rule
	var problems, notes []Problem
	for _, name := range slices.Sorted(maps.Keys(files)) {
		src := newSource(name, files[name])
		list, broken := src.parse()
		problems = append(problems, broken...)
		if len(rules)+len(list) > maxPolicies {
			problems = append(problems, Problem{File: name, Text: fmt.Sprintf("more than %d policies in all", maxPolicies)})
			break
		}
		for _, policy := range list {
			r, texts := newRule(check, name, policy)
			from := src.offset(policy.Position().Line, policy.Position().Column)
			for _, text := range texts {
				problems = append(problems, src.locate(from, text))
			}
			for _, action := range r.actions {
				if text := unusual(action); text != "" {
					notes = append(notes, src.locate(from, text))
				}
			}
			rules = append(rules, r)
		}
	}
	problems = append(problems, duplicates(rules)...)
	if len(rules) == 0 && len(problems) == 0 {
		problems = append(problems, Problem{File: "policies", Text: "no policy in any file; to deny everything, write a forbid"})
	}
	if len(problems) > 0 {
		problems = append(problems, notes...)
		slices.SortStableFunc(problems, func(a, b Problem) int {
			return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
		})
		return nil, &LoadError{Problems: problems}
	}
	slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.id, b.id) })
	return &Set{rules: rules, version: digest(rules), notes: notes}, nil
}

// Notes returns possible typos in the loaded policies: actions whose names are close to a usual one.
func (s *Set) Notes() []Problem { return slices.Clone(s.notes) }

// Version returns the hex SHA-256 of the policies' content: their canonical Cedar text by id, and
// the schema. Comments, layout and file names do not change it. The zero Set has version "".
func (s *Set) Version() string {
	if s == nil {
		return ""
	}
	return s.version
}

// Len returns the number of policies.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.rules)
}

func digest(rules []*rule) string {
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b)))) // lengths, so that different lists never give the same text
		h.Write(b)
	}
	part([]byte("ebb policy set v1"))
	part([]byte(schemaText))
	for _, r := range rules {
		part(r.policy.MarshalCedar())
	}
	return hex.EncodeToString(h.Sum(nil))
}

func duplicates(rules []*rule) (problems []Problem) {
	first := map[string]place{}
	for _, r := range rules {
		before, seen := first[r.id]
		switch {
		case r.id == "":
		case seen:
			problems = append(problems, Problem{File: r.at.file, Line: r.at.line,
				Text: fmt.Sprintf("@id(%q) is already used at %s:%d", r.id, before.file, before.line)})
		default:
			first[r.id] = r.at
		}
	}
	return problems
}

// newRule reads one parsed policy; the rule is complete only when no problem is returned.
func newRule(check *checker, file string, policy *cedar.Policy) (*rule, []string) {
	tree := (*ast.Policy)(policy.AST())
	r := &rule{
		at:     place{file, policy.Position().Line},
		forbid: policy.Effect() == cedar.Forbid,
		policy: policy,
	}
	texts := r.annotate(tree.Annotations)
	names, more := readNames(tree)
	texts = append(texts, more...)
	texts = append(texts, check.problems(tree, names.actions)...)
	r.resources, r.actions = names.resources, names.actions
	if len(texts) > 0 {
		return r, texts
	}
	r.clauses = compile(tree)
	for _, c := range r.clauses {
		op := c.cond.op
		if (c.name == "action" || c.name == "resource") && (op == opWithin || op == opIs || op == opVerb) {
			r.scope = append(r.scope, c.cond)
		}
	}
	return r, nil
}
