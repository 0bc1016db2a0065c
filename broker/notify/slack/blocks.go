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

// payload is the body for an incoming webhook. Slack fetches no previews for its links.
type payload struct {
	Text        string  `json:"text"`
	Mrkdwn      bool    `json:"mrkdwn"`
	Parse       string  `json:"parse"`
	LinkNames   bool    `json:"link_names"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
	Blocks      []block `json:"blocks"`
}

type block struct {
	Type     string `json:"type"` // header, rich_text, actions, context
	Text     *plain `json:"text,omitempty"`
	Elements []any  `json:"elements,omitempty"`
}

// plain is a plain_text object. Emoji is off, so :white_check_mark: stays text.
type plain struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

// section is a line of rich_text.
type section struct {
	Type     string `json:"type"` // rich_text_section
	Elements []span `json:"elements"`
}

type span struct {
	Type  string `json:"type"` // text
	Text  string `json:"text"`
	Style *style `json:"style,omitempty"`
}

type style struct {
	Bold bool `json:"bold"`
}

// button opens a page. It has no value, so a click carries no decision.
type button struct {
	Type string `json:"type"` // button
	Text plain  `json:"text"`
	URL  string `json:"url"`
}

// Body returns m as the JSON of an incoming webhook.
func Body(m notify.Message) ([]byte, error) {
	heading := plain{"plain_text", notify.Text(m.Heading(), maxHeader), false}
	p := payload{Text: notify.Text("ebb: "+m.Heading(), maxHeader), Parse: "none", Blocks: []block{{Type: "header", Text: &heading}}}
	for _, part := range m.Parts(maxItems) {
		lines := block{Type: "rich_text"}
		if part.Heading != "" {
			lines.Elements = append(lines.Elements, line(part.Heading, ""))
		}
		for _, l := range part.Lines {
			lines.Elements = append(lines.Elements, line(l.Label+": ", l.Text))
		}
		p.Blocks = append(p.Blocks, lines, block{Type: "actions", Elements: []any{button{"button", plain{"plain_text", part.Label, false}, part.Link}}})
	}
	p.Blocks = append(p.Blocks, block{Type: "context", Elements: []any{plain{"plain_text", "You cannot decide here. ebb never asks for a decision in a chat.", false}}})
	b, err := json.Marshal(p)
	return agenttext.ASCIIJSON(b), err
}

// line returns a bold label and a text.
func line(label, text string) section {
	return section{"rich_text_section", []span{{"text", label, &style{true}}, {"text", text + "\n", nil}}}
}
