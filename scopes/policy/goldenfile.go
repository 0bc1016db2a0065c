package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// maxTestBytes is the maximum size of one test file, which also limits the expansion of its YAML.
const maxTestBytes = 256 << 10

// A test file is a YAML list of
//
//	{name: reading is granted at once, query: {scopes: "orders:eu/42:read", ttl: 1h}, want: {effect: allow, ttl: 15m}}
//
// Of the query only `scopes` is required. It may also hold ttl (default 5m), tool, binding (default dpop), delivery
// (default token), could_stay, revocability (default instant), revocation_bound (such as 60s, with eventual), sandbox {id, attestor, evidence, subject, selectors}, task {id, kind, owner, name, labels, age}, record
// {denials, violations}, taint and content {kind, actions, objects, amount}. In `want`, only `effect` is required; scopes,
// ttl, ask {groups, quorum}, max_amount ("" means no limit), deliver, rules, would_allow and denied are compared when
// written.
type testCase struct {
	Name  string    `yaml:"name"`
	Query testQuery `yaml:"query"`
	Want  testWant  `yaml:"want"`
}

type testQuery struct {
	Sandbox struct {
		ID        string            `yaml:"id"`
		Attestor  string            `yaml:"attestor"`
		Evidence  string            `yaml:"evidence"`
		Subject   string            `yaml:"subject"`
		Selectors map[string]string `yaml:"selectors"`
	} `yaml:"sandbox"`
	Task struct {
		ID     string            `yaml:"id"`
		Kind   string            `yaml:"kind"`
		Owner  string            `yaml:"owner"`
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
		Age    string            `yaml:"age"`
		Depth  int               `yaml:"depth"`
	} `yaml:"task"`
	Scopes   string `yaml:"scopes"`
	Tool     string `yaml:"tool"`
	TTL      string `yaml:"ttl"`
	Binding  string `yaml:"binding"`
	Delivery string `yaml:"delivery"`
	Could    bool   `yaml:"could_stay"`
	Revoking string `yaml:"revocability"`
	Bound    string `yaml:"revocation_bound"`
	Record   struct {
		Denials    int `yaml:"denials"`
		Violations int `yaml:"violations"`
	} `yaml:"record"`
	Taint   []string `yaml:"taint"`
	Content struct {
		Kind    string   `yaml:"kind"`
		Actions []string `yaml:"actions"`
		Objects []string `yaml:"objects"`
		Amount  string   `yaml:"amount"`
	} `yaml:"content"`
}

type testWant struct {
	Effect string  `yaml:"effect"`
	Scopes *string `yaml:"scopes"`
	TTL    *string `yaml:"ttl"`
	Ask    *struct {
		Groups []string `yaml:"groups"`
		Quorum int      `yaml:"quorum"`
	} `yaml:"ask"`
	MaxAmount  *string   `yaml:"max_amount"`
	Deliver    *string   `yaml:"deliver"`
	Rules      *[]string `yaml:"rules"`
	WouldAllow *string   `yaml:"would_allow"`
	Denied     *string   `yaml:"denied"`
}

// TestFiles reads every `*.test.yaml` at the top of fsys, for [RunTests]. Without such files the
// map is empty, and there is no error.
func TestFiles(fsys fs.FS) (map[string][]byte, error) {
	names, err := fs.Glob(fsys, "*.test.yaml")
	if err != nil {
		return nil, fmt.Errorf("policy: list test files: %w", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = fs.ReadFile(fsys, name); err != nil {
			return nil, fmt.Errorf("policy: read %s: %w", name, err)
		}
	}
	return files, nil
}

// decodeTests decodes one strict YAML document. The decoder panics on some malformed input (a bare "!" before a scalar, for
// one), and so can the formatting of its errors; a broken test file must fail its run, not end the process.
func decodeTests(text []byte) (cases []testCase, err error) {
	defer func() {
		if recover() != nil {
			cases, err = nil, errors.New("not YAML: the decoder cannot read it")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := dec.Decode(&cases); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(yaml.FormatError(err, false, false))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	return cases, nil
}

func readTests(text []byte) ([]testCase, error) {
	if len(text) > maxTestBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxTestBytes)
	}
	cases, err := decodeTests(text)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, errors.New("no test in the file; it is a list of {name, query, want}")
	}
	names := map[string]bool{}
	for i, c := range cases {
		switch {
		case c.Name == "":
			return nil, fmt.Errorf("test #%d has no name", i+1)
		case names[c.Name]:
			return nil, fmt.Errorf("two tests are named %q", c.Name)
		}
		names[c.Name] = true
	}
	return cases, nil
}

// build fills in the members that a test leaves out; an unknown value is an error.
func (t testQuery) build() (Query, error) {
	asked, err := scopes.ParseSet(t.Scopes)
	if err != nil {
		return Query{}, err
	}
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	ttl, errTTL := time.ParseDuration(or(t.TTL, "5m"))
	age, errAge := time.ParseDuration(or(t.Task.Age, "0s"))
	bound, errBound := time.ParseDuration(or(t.Bound, "0s"))
	var sum amount.Amount
	var errSum error
	if t.Content.Amount != "" {
		sum, errSum = amount.Parse(t.Content.Amount)
	}
	if err := errors.Join(errTTL, errAge, errBound, errSum); err != nil {
		return Query{}, err
	}
	return Query{
		Sandbox: Sandbox{
			ID: or(t.Sandbox.ID, "sandbox"), Attestor: or(t.Sandbox.Attestor, "attestor"),
			Evidence: t.Sandbox.Evidence, Subject: t.Sandbox.Subject, Selectors: t.Sandbox.Selectors,
		},
		Task: Task{
			ID: or(t.Task.ID, "task"), Kind: t.Task.Kind, Owner: t.Task.Owner, Name: t.Task.Name,
			Labels: t.Task.Labels, Age: age, Depth: t.Task.Depth,
		},
		Scopes: asked, Tool: t.Tool, TTL: ttl,
		Binding: or(t.Binding, BindingDPoP), Delivery: or(t.Delivery, DeliveryToken), CouldStay: t.Could,
		Revocability: or(t.Revoking, RevocableInstant), Bound: bound,
		Record:  Record{Denials: t.Record.Denials, Violations: t.Record.Violations},
		Taint:   t.Taint,
		Content: Content{Kind: t.Content.Kind, Actions: t.Content.Actions, Objects: t.Content.Objects, Amount: sum},
	}, nil
}
