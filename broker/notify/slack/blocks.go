package slack

import (
	"encoding/json"
	"fmt"

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
	Type     string `json:"type"` // header, rich_text, context
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

// span is a text, or a link with a text.
type span struct {
	Type  string `json:"type"` // text, link
	Text  string `json:"text"`
	URL   string `json:"url,omitempty"`
	Style *style `json:"style,omitempty"`
}

type style struct {
	Bold bool `json:"bold"`
}

func payloadOf(m notify.Message) ([]byte, error) {
	shown, more := m.Shown(maxItems)
	p := payload{Text: notify.Text("ebb: "+m.Heading(), maxHeader), Parse: "none", Blocks: []block{header(m.Heading())}}
	single := !m.Digest && len(shown) == 1 && more == 0
	for _, n := range shown {
		var lines []section
		if !single {
			lines = append(lines, section{"rich_text_section", []span{{Type: "text", Text: n.Heading() + "\n", Style: &style{true}}}})
		}
		for _, l := range n.Lines(m.At) {
			lines = append(lines, section{"rich_text_section", []span{{Type: "text", Text: l.Label + ": ", Style: &style{true}}, {Type: "text", Text: l.Text + "\n"}}})
		}
		p.Blocks = append(p.Blocks, rich(append(lines, link("Open it in ebb", m.Link(n)))))
	}
	if more > 0 {
		p.Blocks = append(p.Blocks, rich([]section{{"rich_text_section", []span{{Type: "text", Text: fmt.Sprintf("and %d more\n", more)}}}, link("Approval queue", m.Base+"/queue")}))
	}
	p.Blocks = append(p.Blocks, block{Type: "context", Elements: []any{plain{"plain_text", "You cannot decide here. ebb never asks for a decision in a chat.", false}}})
	b, err := json.Marshal(p)
	return agenttext.ASCIIJSON(b), err
}

func header(text string) block {
	return block{Type: "header", Text: &plain{"plain_text", notify.Text(text, maxHeader), false}}
}

func rich(lines []section) block {
	b := block{Type: "rich_text"}
	for _, l := range lines {
		b.Elements = append(b.Elements, l)
	}
	return b
}

func link(text, url string) section {
	return section{"rich_text_section", []span{{Type: "link", Text: text, URL: url}}}
}
