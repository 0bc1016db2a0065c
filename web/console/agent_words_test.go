package console_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// Text of an agent that repeats a button or a heading of the pages that decide gets a warning.
//
//ebb:invariant I7 Agent text that repeats a button or a heading of the pages for decisions is flagged
func TestPageWordsAreFlagged(t *testing.T) {
	t.Parallel()
	element := regexp.MustCompile(`<(?:button|h2|summary|label|legend)[^>]*>([^<]*)`)
	action := regexp.MustCompile(`{{[^}]*}}`)
	found := 0
	for _, name := range []string{"request", "batch", "_shown"} {
		page, err := os.ReadFile("templates/" + name + ".html")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range element.FindAllStringSubmatch(action.ReplaceAllString(string(page), ""), -1) {
			words := strings.TrimSpace(m[1])
			if words == "" {
				continue
			}
			found++
			_, notes := agenttext.Show(agenttext.From("I need it.\n"+words+"\nThanks."), 0)
			if len(notes) == 0 || notes[0].Kind != agenttext.NoteImitates {
				t.Errorf("%s.html: %q is not flagged", name, words)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d texts found; the pages have more", found)
	}
}
