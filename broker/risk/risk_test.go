package risk

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

func calm() Facts {
	return Facts{
		Effect: Effect{Described: true, Understood: true, Writes: provider.No, Reversible: provider.Yes},
		Class:  provider.ClassInstant, TTL: 15 * time.Minute, Evidence: "signed",
	}
}

func ids(r Result) string {
	var out []string
	for _, x := range r.Reasons {
		out = append(out, x.ID)
	}
	return strings.Join(out, " ")
}

func TestJudge(t *testing.T) {
	write := func(f *Facts) { f.Effect.Writes = provider.Yes }
	final := func(f *Facts) { f.Effect.Writes, f.Effect.Reversible = provider.Yes, provider.No }
	unknown := func(f *Facts) { f.Effect.Writes, f.Effect.Reversible = provider.Unknown, provider.Unknown }
	first := func(f *Facts) { f.First = true }
	taint := func(f *Facts) { f.Taint = []string{"web", "issues"} }
	for name, c := range map[string]struct {
		change []func(*Facts)
		level  Level
		ids    string
	}{
		"reading":                  {nil, Low, ""},
		"reading, first":           {[]func(*Facts){first}, Low, "first"},
		"reading, tainted":         {[]func(*Facts){taint}, Medium, "tainted"},
		"writing":                  {[]func(*Facts){write}, Low, "write"},
		"writing, first":           {[]func(*Facts){write, first}, Medium, "first-write write"},
		"writing, tainted":         {[]func(*Facts){write, taint}, High, "tainted-write write"},
		"final":                    {[]func(*Facts){final}, Medium, "final"},
		"nobody knows is final":    {[]func(*Facts){unknown}, Medium, "final"},
		"final, first":             {[]func(*Facts){final, first}, High, "final-first"},
		"unknown, first":           {[]func(*Facts){unknown, first}, High, "final-first"},
		"final, pattern":           {[]func(*Facts){final, func(f *Facts) { f.Pattern = true }}, High, "final-pattern"},
		"final, weak evidence":     {[]func(*Facts){final, func(f *Facts) { f.Evidence = "bearer" }}, High, "final-evidence"},
		"evidence nobody knows":    {[]func(*Facts){func(f *Facts) { f.Evidence = "new" }}, Medium, "evidence"},
		"no evidence class":        {[]func(*Facts){func(f *Facts) { f.Evidence = "" }}, Medium, "evidence"},
		"not described":            {[]func(*Facts){func(f *Facts) { f.Effect = Effect{} }}, High, "not-described"},
		"not understood":           {[]func(*Facts){unknown, func(f *Facts) { f.Effect.Understood = false }}, High, "not-understood"},
		"ttl-only":                 {[]func(*Facts){func(f *Facts) { f.Class = provider.ClassTTLOnly }}, Medium, "ttl-only"},
		"class nobody knows":       {[]func(*Facts){func(f *Facts) { f.Class = "forever" }}, Medium, "ttl-only"},
		"eventual":                 {[]func(*Facts){func(f *Facts) { f.Class, f.Bound = provider.ClassEventual, time.Minute }}, Low, "late"},
		"violations":               {[]func(*Facts){func(f *Facts) { f.Violations = 1 }}, High, "violations"},
		"denials":                  {[]func(*Facts){func(f *Facts) { f.Denials = 2 }}, Medium, "denials"},
		"delegated":                {[]func(*Facts){func(f *Facts) { f.Delegated = true }}, Medium, "delegated"},
		"attested an hour ago":     {[]func(*Facts){func(f *Facts) { f.EvidenceAge = time.Hour }}, Low, ""},
		"attested long ago":        {[]func(*Facts){func(f *Facts) { f.EvidenceAge = time.Hour + 1 }}, Medium, "old-evidence"},
		"long reading":             {[]func(*Facts){func(f *Facts) { f.TTL = time.Hour }}, Low, "long"},
		"long writing":             {[]func(*Facts){write, func(f *Facts) { f.TTL = time.Hour }}, Medium, "long-write write"},
		"production, reading":      {[]func(*Facts){func(f *Facts) { f.Production = true }}, Medium, "production"},
		"production, writing":      {[]func(*Facts){write, func(f *Facts) { f.Production = true }}, High, "production-write write"},
		"pattern":                  {[]func(*Facts){func(f *Facts) { f.Pattern = true }}, Medium, "pattern"},
		"all at once says it once": {[]func(*Facts){final, first, taint, func(f *Facts) { f.Pattern = true }}, High, "tainted-write final-first pattern"},
	} {
		f := calm()
		for _, change := range c.change {
			change(&f)
		}
		if r := Judge(f); r.Level != c.level || ids(r) != c.ids {
			t.Errorf("%s: %s (%s), want %s (%s)", name, r.Level, ids(r), c.level, c.ids)
		}
	}
}

// A fact that gets worse never lowers the level, and the reasons are sorted from the strongest to
// the weakest, for any combination.
func TestWorseIsNeverLower(t *testing.T) {
	worsen := []func(*Facts){
		func(f *Facts) { f.Effect.Writes = provider.Unknown },
		func(f *Facts) { f.Effect.Reversible = provider.No },
		func(f *Facts) { f.Effect.Understood = false },
		func(f *Facts) { f.Pattern = true },
		func(f *Facts) { f.Class = provider.ClassTTLOnly },
		func(f *Facts) { f.TTL = 2 * time.Hour },
		func(f *Facts) { f.First = true },
		func(f *Facts) { f.Taint = []string{"web"} },
		func(f *Facts) { f.Evidence = "bearer" },
		func(f *Facts) { f.Violations = 1 },
		func(f *Facts) { f.Production = true },
	}
	at := func(set int) Facts {
		f := calm()
		for i, w := range worsen {
			if set&(1<<i) != 0 {
				w(&f)
			}
		}
		return f
	}
	for set := range 1 << len(worsen) {
		r := Judge(at(set))
		if !slices.IsSortedFunc(r.Reasons, func(a, b Reason) int { return slices.Index(order, b.Level) - slices.Index(order, a.Level) }) {
			t.Fatalf("reasons are not the strongest first: %+v", r)
		}
		words := 0
		for _, x := range r.Top() {
			words += len(strings.Fields(x.Text))
		}
		if words > 33 { // with a title of six words and the level: forty
			t.Errorf("the reasons shown have %d words: %+v", words, r.Top())
		}
		for i := range worsen {
			if more := Judge(at(set | 1<<i)); !more.Level.atLeast(r.Level) {
				t.Fatalf("%+v is %s, and worse %s", at(set), r.Level, more.Level)
			}
		}
	}
}

func TestRulesAreATable(t *testing.T) {
	guide, err := os.ReadFile("../../docs/reference/risk.md")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for i, r := range rules {
		if slices.Contains(known, r.id) || !slices.Contains(order, r.level) || i > 0 && r.level.atLeast(rules[i-1].level) && r.level != rules[i-1].level {
			t.Errorf("%s: the id is taken, or the level %s unknown or out of order", r.id, r.level)
		}
		known = append(known, r.id)
		if !strings.Contains(string(guide), "| `"+r.id+"` | "+string(r.level)+" |") {
			t.Errorf("docs/reference/risk.md does not have %s as %s", r.id, r.level)
		}
	}
	for i, r := range rules {
		for _, over := range r.over {
			if !slices.Contains(known[i+1:], over) {
				t.Errorf("%s stands for %s, which does not follow", r.id, over)
			}
		}
	}
}

type described map[string]provider.Effect

func (d described) Describe(s scopes.Scope) (provider.Effect, error) {
	e, known := d[s.Action()]
	if !known {
		return e, errors.New("what is that")
	}
	return e, nil
}

// silent is a driver that does not describe its scopes.
type silent struct{}

func (silent) Check(scopes.Set) error { return nil }
func (silent) Mint(context.Context, provider.Grant) (provider.Credential, error) {
	return provider.Credential{}, provider.ErrRefused
}
func (silent) Revoke(context.Context, provider.Target) error { return nil }
func (silent) Traits() provider.Traits                       { return provider.Traits{} }

func TestEffectOfIsTheWorst(t *testing.T) {
	d := struct {
		silent
		described
	}{described: described{
		"read": provider.Reading(), "push": {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "Revert."},
		"drop": {Writes: provider.Yes, Reversible: provider.No}, "odd": {Writes: "perhaps", Reversible: ""},
	}}
	for set, want := range map[string]struct {
		e        Effect
		undoable string
	}{
		"x:a:read":          {Effect{true, true, provider.No, provider.Yes, nil}, "x:a:read"},
		"x:a:read x:a:push": {Effect{true, true, provider.Yes, provider.Yes, nil}, "x:a:push x:a:read"},
		"x:a:read x:a:drop": {Effect{true, true, provider.Yes, provider.No, nil}, "x:a:read"},
		"x:a:read x:a:odd":  {Effect{true, true, provider.Unknown, provider.Unknown, nil}, "x:a:read"},
		"x:a:push x:a:what": {Effect{true, false, provider.Yes, provider.Unknown, nil}, "x:a:push"},
	} {
		e, undoable := EffectOf(d, provider.Words{}, scopes.MustParseSet(set))
		e.Sentences = nil
		if e.Described != want.e.Described || e.Understood != want.e.Understood || e.Writes != want.e.Writes || e.Reversible != want.e.Reversible || undoable.String() != want.undoable {
			t.Errorf("%s: %+v, %s", set, e, undoable)
		}
	}
	if e, undoable := EffectOf(silent{}, provider.Words{}, scopes.MustParseSet("x:a:read")); e.Described || e.Understood || e.Writes == provider.No || !undoable.Empty() {
		t.Errorf("a driver that says nothing: %+v, %s", e, undoable)
	}
	if e, _ := EffectOf(nil, provider.Words{}, scopes.MustParseSet("x:a:read")); e.Described || e.Understood {
		t.Errorf("no driver: %+v", e)
	}
}

// Two assessments of the same facts are the same bytes, because a digest covers them.
func TestJudgeIsRepeatable(t *testing.T) {
	f := calm()
	f.Taint, f.First, f.Violations = []string{"a", "b"}, true, 2
	one, err := json.Marshal(Judge(f))
	two, err2 := json.Marshal(Judge(f))
	if err != nil || err2 != nil || string(one) != string(two) {
		t.Errorf("%s %s", one, two)
	}
}

func TestProductionIsSaidNotGuessed(t *testing.T) {
	for value, want := range map[string]bool{"production": true, "prod": true, "": false, "staging": false, "Production ": false} {
		if Production(map[string]string{"environment": value}) != want {
			t.Errorf("%q", value)
		}
	}
	if Production(map[string]string{"repo": "production"}) || Production(nil) {
		t.Error("guessed")
	}
}

// TestOperatorsWords: an operator can describe an effect that the driver does not know, and
// otherwise only describe it as worse.
func TestOperatorsWords(t *testing.T) {
	t.Parallel()
	words := provider.Words{Reversible: []string{"tag", "drop", "push"}, Irreversible: []string{"wire", "read"}}
	known := map[string]provider.Effect{
		"tag": {Writes: provider.Unknown, Reversible: provider.Unknown}, "wire": {Writes: provider.Unknown, Reversible: provider.Unknown},
		"other": {Writes: provider.Unknown, Reversible: provider.Unknown}, "drop": {Writes: provider.Yes, Reversible: provider.No},
		"push": {Writes: provider.Yes, Reversible: provider.Yes}, "read": provider.Reading(),
	}
	for action, want := range map[string][2]provider.Answer{
		"tag": {provider.Yes, provider.Yes}, "wire": {provider.Yes, provider.No}, "other": {provider.Unknown, provider.Unknown},
		"drop": {provider.Yes, provider.No}, "push": {provider.Yes, provider.Yes}, "read": {provider.Yes, provider.No},
	} {
		got := words.On(scopes.MustParseSet("a:b:" + action).Scopes()[0], known[action])
		if got.Writes != want[0] || got.Reversible != want[1] {
			t.Errorf("%s: %+v, want %v", action, got, want)
		}
	}
}
