package doctest

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	p, err := Parse(`# Title
<!-- needs: postgres redis -->
~~~sh` + "\n~~~\n")
	if err == nil || !strings.HasPrefix(err.Error(), "3: fence ") {
		t.Fatalf("%+v, %v", p, err)
	}
	text := strings.ReplaceAll(`<!-- needs: postgres redis -->
'''yaml file=conf/ebb.yaml
a: 1
'''
'''sh background
ebb serve
'''
Wait for:
'''text
...
ready
'''
'''sh
one
two
'''
'''yaml
shown: only
'''
'''text
no output of anything
'''
'''sh no-run
curl https://slack.example
'''
'''text
shown
'''
'''sh exit=3
false
'''
`, "'''", "```")
	p, err = Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := &Page{Needs: []string{"postgres", "redis"}, Steps: []Step{
		{Line: 3, Text: "a: 1\n", File: "conf/ebb.yaml"},
		{Line: 6, Text: "ebb serve\n", Background: true, Want: &Output{10, "...\nready\n"}},
		{Line: 14, Text: "one\ntwo\n"},
		{Line: 30, Text: "false\n", Exit: 3},
	}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
}

// A block that the parser does not understand must not be skipped: the page would be green.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"'''sh\nnever closed":              "1: the block that starts here is not closed",
		"'''sh\na\n'''sh\nb\n'''":          "1: the block that starts here is not closed before line 3",
		"1. '''sh\n   a\n   '''":           `1: fence "1. ` + "```" + `sh" is not in a form that runs`,
		"> '''sh":                          "1: fence ",
		"    '''sh\n    a\n    '''":        "1: fence ",
		"''''sh\na\n''''":                  "1: fence ",
		"'''bash\na\n'''":                  `1: language "bash" never runs`,
		"\n'''console\n$ a\n'''":           `2: language "console" never runs`,
		"'''sh norun\na\n'''":              `1: word "norun" after "sh"`,
		"'''sh\na\n'''\n'''text\n...\n'''": "4: an expected output of",
		"'''sh exit=0\na\n'''":             `1: word "exit=0" after "sh"`,
		"'''sh exit=x\na\n'''":             `1: word "exit=x" after "sh"`,
		"'''sh background exit=3\na\n":     "1: the block that starts here is not closed",
		"'''sh no-run background\n'''":     "1: words [",
		"'''yaml background\n'''":          `1: word "background" after "yaml"`,
		"'''yaml file=../x\n'''":           `1: word "file=../x" after "yaml"`,
		"'''yaml file=/etc/x\n'''":         `1: word "file=/etc/x" after "yaml"`,
		"'''yaml file=\n'''":               `1: fence `,
		"'''sh  two spaces\n'''":           "1: fence ",
	} {
		p, err := Parse(strings.ReplaceAll(text, "'''", "```"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %s", text, p, err, want)
		}
	}
}
