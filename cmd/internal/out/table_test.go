package out_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

type row struct {
	id, scope, says, remedy string
	at                      time.Time
}

var rowColumns = []out.Column[row]{
	{Name: "id", Cell: func(r row) string { return r.id }, Form: out.ID},
	{Name: "expires_at", Cell: func(r row) string { return out.Time(r.at) }, Form: out.When},
	{Name: "whole", Cell: func(row) string { return "in wide tables" }, Show: out.Full},
	{Name: "brief", Cell: func(row) string { return "here" }, Show: out.Brief},
	{Name: "scope", Cell: func(r row) string { return r.scope }, Form: out.Scope},
	{Name: "says", Cell: func(r row) string { return r.says }},
}

// fits fails for a table with a line wider than 100 cells. The texts of the
// tests have one cell for each character, or only wide characters.
func fits(t *testing.T, name, table string) {
	t.Helper()
	agenttexttest.Clean(t, name, table)
	for line := range strings.Lines(table) {
		n := 0
		for _, r := range strings.TrimSuffix(line, "\n") {
			n++
			if r >= 0x4e00 && r <= 0x9fff {
				n++
			}
		}
		if n > out.Width {
			t.Errorf("%s: %d cells: %s", name, n, line)
		}
	}
}

func list(t *testing.T, columns []out.Column[row], rows ...row) string {
	t.Helper()
	var b strings.Builder
	if err := out.List(&b, out.Table, columns, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTableFits prints values of every length.
func TestTableFits(t *testing.T) {
	t.Parallel()
	r := row{id: "lse_01a1f92a00007bf2222244bdd0bc9949", at: time.Now().Add(12*time.Minute + 30*time.Second), scope: "github:" + strings.Repeat("acme/", 40) + "app:write", says: strings.Repeat("why ", 100)}
	got := list(t, rowColumns, r)
	fits(t, "long", got)
	for _, want := range []string{"ID                EXPIRES", "lse_01a1f92a0000  in 12m", "github:acme/", "app:write  why why", "…"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "WHOLE") || !strings.Contains(got, "BRIEF") {
		t.Errorf("columns of the other place in\n%s", got)
	}
	for name, text := range agenttexttest.Hostile(t) {
		got := list(t, rowColumns, row{id: text, scope: text, says: text})
		agenttexttest.Clean(t, name, got)
		if n := strings.Count(got, "\n"); n != 2 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
	wide := strings.Repeat("\u6f22\u5b57", 100)
	fits(t, "wide", list(t, rowColumns, row{id: wide, scope: wide, says: wide}))
	fits(t, "prose", list(t, []out.Column[row]{{Name: "says", Cell: rowColumns[5].Cell, Form: out.Prose}}, row{says: wide}))
}

// TestShortIDsDiffer: the prefixes of a listing are as long as its ids need to differ.
func TestShortIDsDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ids  []string
		want []string
	}{
		"alone":                   {[]string{"tsk_01a1f92a00007bf2222244bdd0bc9949"}, []string{"tsk_01a1f92a0000"}},
		"of one millisecond":      {[]string{"tsk_01a1f92a00007bf2222244bdd0bc9949", "tsk_01a1f92a00007bf3222244bdd0bc9949"}, []string{"tsk_01a1f92a00007bf2", "tsk_01a1f92a00007bf3"}},
		"the same twice":          {[]string{"tsk_01a1f92a00007bf2222244bdd0bc9949", "tsk_01a1f92a00007bf2222244bdd0bc9949"}, []string{"tsk_01a1f92a0000"}},
		"no id":                   {[]string{"tsk_01A1f92a00007bf2222244bdd0bc9949"}, []string{"tsk_01A1f92a000…"}},
		"apart in the last digit": {[]string{"tsk_01a1f92a00007bf2222244bdd0bc9949", "tsk_01a1f92a00007bf2222244bdd0bc9948"}, []string{"tsk_01a1f92a00007bf2222244bdd0bc9949", "tsk_01a1f92a00007bf2222244bdd0bc9948"}},
	} {
		var rows []row
		for _, id := range c.ids {
			rows = append(rows, row{id: id})
		}
		got := list(t, rowColumns[:1], rows...)
		for _, want := range c.want {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%s: no %s in\n%s", name, want, got)
			}
		}
	}
}

// TestProse: the last column is wrapped, a remedy stands below it.
func TestProse(t *testing.T) {
	t.Parallel()
	columns := []out.Column[row]{
		{Name: "id", Cell: func(r row) string { return r.id }},
		{Name: "says", Cell: func(r row) string { return r.says }, Form: out.Prose},
		{Name: "remedy", Cell: func(r row) string { return r.remedy }, Form: out.Remedy},
	}
	got := list(t, columns, row{id: "a", says: strings.Repeat("word ", 30), remedy: "line\nbreak"}, row{id: "b"})
	want := "ID  SAYS\na   " + strings.TrimSpace(strings.Repeat("word ", 19)) + "\n    " + strings.TrimSpace(strings.Repeat("word ", 11)) + "\n    -> line[U+000A]break\nb   -\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRelative(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", -900 * time.Millisecond: "now", 59 * time.Second: "in 59s", -time.Minute: "1m ago",
		12*time.Minute + 59*time.Second: "in 12m", -3 * time.Hour: "3h ago", 47 * time.Hour: "in 47h", -49 * time.Hour: "2d ago", 400 * 24 * time.Hour: "in 400d",
	} {
		if got := out.Relative(now.Add(d), now); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "", 45: "45s", 900: "15m", 3600: "1h", 5400: "1h30m", 3601: "1h0m1s"} {
		if got := out.Seconds(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 10, ""}, {"one two three", 7, "one two|three"}, {"abcdefghij kl", 4, "abcd|efgh|ij|kl"}, {"\u6f22\u6f22", 1, "\u6f22|\u6f22"},
	} {
		if got := strings.Join(out.Wrap(c.text, c.n), "|"); got != c.want {
			t.Errorf("%q at %d: got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 10, ""}, {"  a  b", 4, "  a |" + " b"}, {"abcd", 4, "abcd"}, {"abcdefghij", 4, "abcd|efgh|ij"}, {"\u6f22\u6f22", 1, "\u6f22|\u6f22"},
	} {
		if got := strings.Join(out.Pieces(c.text, c.n), "|"); got != c.want {
			t.Errorf("%q at %d: got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// TestRow: a line of a stream fits the width and hides nothing.
func TestRow(t *testing.T) {
	t.Parallel()
	const id = "req_01a1f92a00007bf2222244bdd0bc9949"
	now := out.Time(time.Now())
	for f, want := range map[out.Format]string{
		out.Table: "2020-01-02  pending     req_01a1f92a0000    -   bo\n",
		out.Wide:  "2020-01-02T03:04:05Z    pending     " + id + "    -   bo\n",
		out.CSV:   "2020-01-02T03:04:05Z,pending," + id + ",,bo\n",
	} {
		var b strings.Builder
		if err := out.Row(&b, f, "2020-01-02T03:04:05Z", "pending", id, "", "bo"); err != nil || b.String() != want {
			t.Errorf("%s: got %q, want %q, %v", f, b.String(), want, err)
		}
	}
	for name, text := range agenttexttest.Hostile(t) {
		var b strings.Builder
		if err := out.Row(&b, out.Table, now, id, text); err != nil {
			t.Fatal(err)
		}
		agenttexttest.Clean(t, name, b.String())
		if strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: %q", name, b.String())
		}
	}
	var b strings.Builder
	if err := out.Row(&b, out.Table, now, strings.Repeat("\u6f22", 200)); err != nil {
		t.Fatal(err)
	}
	fits(t, "wide", b.String())
}
