package out_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

type thing struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
	N    int       `json:"n"`
}

var columns = []out.Column[thing]{
	{Name: "name", Cell: func(t thing) string { return t.Name }},
	{Name: "made_at", Cell: func(t thing) string { return out.Time(t.At) }, Form: out.When},
	{Name: "n", Cell: func(t thing) string { return out.Int(t.N) }},
}

var hostile = []thing{
	{Name: "\x1b[2J\x1b]0;owned\x07gone", N: 1},
	{Name: "safe\u202Egnp.exe", N: 2},
	{Name: "=HYPERLINK(\"http://x\")", N: 3},
	{Name: "two\nlines\tand\rmore", N: 4},
	{Name: "c1 \u009b31m, del \x7f, zwsp \u200b, tag \U000E0041", N: 5, At: time.Date(2026, 11, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))},
}

// TestHostile (E112) prints the hostile texts that every output is tested with,
// as a table, CSV and JSON.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, text := range agenttexttest.Hostile(t) {
		item := thing{Name: text, N: 1}
		for _, f := range []out.Format{out.Table, out.Wide, out.JSON, out.CSV} {
			var list, one strings.Builder
			if err := errors.Join(out.List(&list, f, columns, []thing{item, item}), out.One(&one, f, columns, item)); err != nil {
				t.Fatalf("%s, %s: %v", name, f, err)
			}
			agenttexttest.Clean(t, name+", "+string(f), list.String()+one.String())
			if want := map[out.Format]int{out.Table: 3, out.Wide: 3, out.CSV: 3, out.JSON: 10}[f]; strings.Count(list.String(), "\n") != want {
				t.Errorf("%s, %s: %d lines, want %d: %q", name, f, strings.Count(list.String(), "\n"), want, list.String())
			}
			switch f {
			case out.JSON:
				agenttexttest.ASCII(t, name, list.String())
				var back []thing
				if err := json.Unmarshal([]byte(list.String()), &back); err != nil || utf8.ValidString(text) && back[0].Name != text {
					t.Errorf("%s: came back as %+v, %v", name, back, err)
				}
			case out.CSV:
				rows, err := csv.NewReader(strings.NewReader(list.String())).ReadAll()
				if err != nil || len(rows) != 3 || strings.ContainsAny(rows[1][0][:min(1, len(rows[1][0]))], "=+-@\t\r") {
					t.Errorf("%s: a cell that a spreadsheet runs: %q, %v", name, rows, err)
				}
			case out.Table, out.Wide:
			}
		}
	}
}

// TestNothingHides prints hostile text in every format and checks the bytes.
//
//ebb:invariant I9
func TestNothingHides(t *testing.T) {
	t.Parallel()
	for _, f := range []out.Format{out.Table, out.Wide, out.JSON, out.CSV} {
		var list, one strings.Builder
		if err := out.List(&list, f, columns, hostile); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, h := range hostile {
			if err := out.One(&one, f, columns, h); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
		}
		for _, r := range list.String() + one.String() {
			if r != '\n' && (unicode.IsControl(r) || !unicode.IsPrint(r)) {
				t.Errorf("%s prints %U", f, r)
			}
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 4, 4, 5, 999, time.FixedZone("x", 3600))
	items := []thing{{"alpha", at, 3}, {"b", time.Time{}, 0}}
	for f, want := range map[out.Format]string{
		out.Wide: "NAME   MADE AT               N\nalpha  2026-11-02T03:04:05Z  3\nb      -                     -\n",
		out.CSV:  "name,made_at,n\nalpha,2026-11-02T03:04:05Z,3\nb,,\n",
	} {
		var b strings.Builder
		if err := out.List(&b, f, columns, items); err != nil || b.String() != want {
			t.Errorf("%s: got\n%s\nwant\n%s%v", f, b.String(), want, err)
		}
	}
	var b strings.Builder
	if err := out.List(&b, out.Table, columns, nil); err != nil || b.String() != "none\n" {
		t.Errorf("empty table is %q, %v", b.String(), err)
	}
}

func TestIDsSurvive(t *testing.T) {
	t.Parallel()
	const id = "lse_01a1f92a00007bf2222244bdd0bc9949"
	for _, f := range []out.Format{out.Table, out.Wide, out.JSON, out.CSV} {
		var b strings.Builder
		if err := out.List(&b, f, columns, []thing{{Name: id}}); err != nil || !strings.Contains(b.String(), id) {
			t.Errorf("%s prints %q, %v", f, b.String(), err)
		}
	}
}

func TestCSVIsInert(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := out.List(&b, out.CSV, columns, hostile); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != len(hostile)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if got := rows[3][0]; !strings.HasPrefix(got, "'=") {
		t.Errorf("a formula is %q", got)
	}
}

func TestJSONKeepsTheText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := out.List(&b, out.JSON, columns, hostile); err != nil {
		t.Fatal(err)
	}
	var back []thing
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	for i := range hostile {
		if back[i].Name != hostile[i].Name {
			t.Errorf("%q came back as %q", hostile[i].Name, back[i].Name)
		}
	}
	b.Reset()
	if err := out.List[thing](&b, out.JSON, columns, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("empty list is %q, %v", b.String(), err)
	}
}

func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	var f out.Format
	if f.Set("xml") == nil || out.List(&strings.Builder{}, f, columns, nil) == nil || out.One(&strings.Builder{}, f, columns, thing{}) == nil {
		t.Error("an unknown format is accepted")
	}
}
