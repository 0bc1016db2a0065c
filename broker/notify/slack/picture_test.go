package slack

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

var update = flag.Bool("update", false, "rewrite the picture of a message")

// TestPicture compares docs/images/slack.svg with a message of this package, drawn as Slack shows it. With
// -update it writes the picture.
func TestPicture(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 9, 30, 0, 0, time.UTC)
	body, err := Body(notify.Message{ID: "msg_1", At: at, Base: "https://ebb.example.com", Notices: []notify.Notice{{
		Event: notify.Waiting, Subject: "req_1", Title: "Write to acme/web at github", Risk: "medium", Reasons: []string{"First of its kind for bo@example.com."},
		TaskID: "tsk_1", TaskName: "fix login", Owner: "bo@example.com", Match: "GARNET-82", Until: at.Add(30 * time.Minute), Path: "/requests/req_1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := draw(t, body)
	const file = "../../../docs/images/slack.svg"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not the message that this package sends: run go test ./broker/notify/slack -run TestPicture -update (%v)", file, err)
	}
}

func read[T any](t *testing.T, text json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The parts of a message that the picture shows.
type (
	shown  struct{ Text string }
	button struct{ Text shown }
	spans  struct {
		Elements []struct {
			shown
			Style *struct{}
		}
	}
)

// draw draws a payload of an incoming webhook.
func draw(t *testing.T, body []byte) string {
	t.Helper()
	var p struct {
		Blocks []struct {
			Type     string
			Text     shown
			Elements []json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	y := 46
	row := func(height int, class, text string) {
		y += height
		fmt.Fprintf(&rows, "<text x=\"76\" y=\"%d\"%s>%s</text>\n", y, class, text)
	}
	for _, b := range p.Blocks {
		if b.Type == "header" {
			row(30, ` class="head"`, html.EscapeString(b.Text.Text))
		}
		for _, e := range b.Elements {
			switch b.Type {
			case "context":
				row(30, ` class="soft"`, html.EscapeString(read[shown](t, e).Text))
			case "actions":
				label := read[button](t, e).Text.Text
				fmt.Fprintf(&rows, "<rect class=\"page\" x=\"76\" y=\"%d\" width=\"%d\" height=\"36\" rx=\"6\"/>\n", y+12, 32+8*len(label))
				row(36, ` dx="16" font-weight="700"`, html.EscapeString(label))
				y += 12
			case "rich_text":
				line := ""
				for _, s := range read[spans](t, e).Elements {
					class := ""
					if s.Style != nil {
						class = ` font-weight="700"`
					}
					line += fmt.Sprintf("<tspan%s>%s</tspan>", class, html.EscapeString(strings.TrimSuffix(s.Text, "\n")))
				}
				row(24, ` xml:space="preserve"`, line)
			}
		}
	}
	return fmt.Sprintf(picture, y+24, y+23, rows.String())
}

const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 %d" role="img" aria-labelledby="t" font-family="Lato, system-ui, 'DejaVu Sans', sans-serif" font-size="15">
<title id="t">A message of ebb in Slack: a request that waits for an approval, and a button that opens the console</title>
<style>
.page{fill:#fff;stroke:#d3dae2}text{fill:#1d1c1d}.head{font-size:18px;font-weight:700}.soft{fill:#616061;font-size:13px}
@media (prefers-color-scheme:dark){.page{fill:#1a1d21;stroke:#35373b}text{fill:#d1d2d3}.soft{fill:#ababad}}
</style>
<rect class="page" x="0.5" y="0.5" width="639" height="%d" rx="8"/>
<rect x="20" y="20" width="40" height="40" rx="6" fill="#1f6fb8"/>
<text x="40" y="46" text-anchor="middle" font-weight="700" style="fill:#fff">ebb</text>
<text x="76" y="36"><tspan font-weight="700">ebb</tspan><tspan class="soft" dx="8">APP  9:30 AM</tspan></text>
%s</svg>
`
