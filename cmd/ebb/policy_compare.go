package main

import (
	"strconv"

	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// countLine is one line of the comparison of two policy sets over past
// decisions.
type countLine struct {
	What    string `json:"what"`
	N       int    `json:"n"`
	Wider   bool   `json:"wider"`
	Refused int    `json:"refused"` // how many of these a person denied
}

var countColumns = []out.Column[countLine]{
	{Name: "what", Cell: func(l countLine) string { return l.What }},
	{Name: "n", Cell: func(l countLine) string { return strconv.Itoa(l.N) }},
	{Name: "wider", Cell: func(l countLine) string {
		if l.Wider {
			return "WIDER"
		}
		return ""
	}},
	{Name: "denied_by_a_person", Cell: func(l countLine) string { return strconv.Itoa(l.Refused) }},
}

// comparePast counts the decisions of both sets on all past requests.
func (c policyCommands) comparePast(live string, draft *policy.Set, past replay.Past, strict bool) error {
	if live == "starter" {
		live = ""
	}
	before, err := loadPolicies(live)
	if err != nil {
		return err
	}
	got := replay.Compared(before, draft, past, func(int) bool { return true })
	lines := []countLine{
		{What: "live granted", N: got.Live.Granted}, {What: "live asked", N: got.Live.Asked}, {What: "live denied", N: got.Live.Denied},
		{What: "draft granted", N: got.Draft.Granted}, {What: "draft asked", N: got.Draft.Asked}, {What: "draft denied", N: got.Draft.Denied},
	}
	for _, m := range got.Moves {
		lines = append(lines, countLine{What: m.From.String() + " -> " + m.To.String(), N: m.N, Wider: m.Wider, Refused: m.Refused})
	}
	if err := out.List(c.stdout, c.format, countColumns, lines); err != nil {
		return err
	}
	c.sayf("%d decisions replayed, %d differ, %d of them wider; %d skipped: the export lacks the start of their task\n", got.Looked, got.Changed, got.Wider, past.Skipped)
	if strict && got.Wider > 0 {
		return fail("the draft grants more than the live policies", "see the lines marked WIDER")
	}
	return nil
}
