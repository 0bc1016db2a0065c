package slack

import (
	"encoding/json"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/notify"
)

// Slack's limits, in characters or in number (Block Kit reference).
const (
	maxHeader = 150
	maxItems  = 8 // of a digest: two blocks each, far below 50
)

// object is a JSON object of Block Kit.
type object map[string]any

// Body returns m as the JSON of an incoming webhook. Slack fetches no previews for its links.
func Body(m notify.Message) ([]byte, error) {
	blocks := []object{{"type": "header", "text": plain(notify.Text(m.Heading(), maxHeader))}}
	for _, part := range m.Parts(maxItems) {
		var lines []object
		if part.Heading != "" {
			lines = append(lines, line(part.Heading, ""))
		}
		for _, l := range part.Lines {
			lines = append(lines, line(l.Label+": ", l.Text))
		}
		// The button has no value, so a click carries no decision.
		open := object{"type": "button", "text": plain(part.Label), "url": part.Link}
		blocks = append(blocks, object{"type": "rich_text", "elements": lines}, object{"type": "actions", "elements": []object{open}})
	}
	blocks = append(blocks, object{"type": "context", "elements": []object{plain("You cannot decide here. ebb never asks for a decision in a chat.")}})
	b, err := json.Marshal(object{
		"text": notify.Text("ebb: "+m.Heading(), maxHeader), "mrkdwn": false, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks,
	})
	return agenttext.ASCIIJSON(b), err
}

// plain returns a plain_text object. Emoji is off, so :white_check_mark: stays text.
func plain(text string) object { return object{"type": "plain_text", "text": text, "emoji": false} }

// line returns a bold label and a text.
func line(label, text string) object {
	span := object{"type": "text", "text": label, "style": object{"bold": true}}
	return object{"type": "rich_text_section", "elements": []object{span, {"type": "text", "text": text + "\n"}}}
}
