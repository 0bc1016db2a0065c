package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/scopes"
)

// Report is the outcome of a run of golden tests, in the order of the files and their cases.
type Report struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Results []Result `json:"results"`
}

// OK reports whether at least one test ran and none failed.
func (r Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

// Result is the outcome of one case, or of a file that could not be read, which has no name.
type Result struct {
	File string   `json:"file"`
	Name string   `json:"name,omitempty"`
	OK   bool     `json:"ok"`
	Diff []string `json:"diff,omitempty"` // one line for each difference
}

// RunTests runs golden tests, by file name, against the set. A file that does not decode strictly
// counts as a failure.
func RunTests(set *Set, files map[string][]byte) Report {
	var report Report
	add := func(r Result) {
		if r.OK {
			report.Passed++
		} else {
			report.Failed++
		}
		report.Results = append(report.Results, r)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		cases, err := readTests(files[file])
		if err != nil {
			add(Result{File: file, Diff: []string{err.Error()}})
			continue
		}
		for _, c := range cases {
			diff := c.run(set)
			add(Result{File: file, Name: c.Name, OK: len(diff) == 0, Diff: diff})
		}
	}
	return report
}

// run returns the differences between the expected and the actual decision.
func (c testCase) run(set *Set) []string {
	q, err := c.Query.build()
	if err != nil {
		return []string{"query: " + err.Error()}
	}
	var want Effect
	if err := want.UnmarshalText([]byte(c.Want.Effect)); err != nil {
		return []string{`want.effect is required: "allow", "ask" or "deny"`}
	}
	got, err := set.Decide(q)
	if err != nil {
		return []string{err.Error()}
	}
	return c.Want.diff(want, got)
}

func (w testWant) diff(effect Effect, got Decision) (diff []string) {
	compare := func(what, want, got string) {
		if want != got {
			diff = append(diff, fmt.Sprintf("%s: want %q, got %q", what, want, got))
		}
	}
	compareScopes := func(what string, want *string, got scopes.Set) {
		if want == nil {
			return
		}
		set, err := scopes.ParseSet(*want)
		if err != nil {
			diff = append(diff, fmt.Sprintf("want.%s: %v", what, err))
			return
		}
		compare(what, set.String(), got.String())
	}
	compare("effect", effect.String(), got.Effect.String())
	compareScopes("scopes", w.Scopes, got.Scopes)
	if w.TTL != nil {
		ttl, err := time.ParseDuration(*w.TTL)
		if err != nil {
			diff = append(diff, "want.ttl: "+err.Error())
		} else {
			compare("ttl", ttl.String(), got.TTL.String())
		}
	}
	if w.Ask != nil {
		want := Approval{Groups: slices.Sorted(slices.Values(w.Ask.Groups)), Quorum: max(1, w.Ask.Quorum)}
		compare("ask", want.summary(), got.Ask.summary())
	}
	if w.MaxAmount != nil {
		compare("max_amount", *w.MaxAmount, got.MaxAmount.String())
	}
	if w.Deliver != nil {
		compare("deliver", *w.Deliver, got.Deliver)
	}
	if w.Rules != nil {
		compare("rules", strings.Join(slices.Sorted(slices.Values(*w.Rules)), " "), strings.Join(got.Rules, " "))
	}
	compareScopes("would_allow", w.WouldAllow, got.WouldAllow)
	compareScopes("denied", w.Denied, got.Denied)
	return diff
}

// summary returns the approval in one line, for differences.
func (a *Approval) summary() string {
	if a == nil {
		return "nobody"
	}
	return fmt.Sprintf("%d of %s", a.Quorum, strings.Join(a.Groups, ", "))
}
