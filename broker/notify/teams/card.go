package teams

import (
	"encoding/json"
	"strings"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/notify"
)

// maxItems is the number of notices in one card: Teams accepts 28 KB.
const maxItems = 8

// object is a JSON object of the Adaptive Cards schema.
type object map[string]any

// Body returns m as the JSON of the webhook.
func Body(m notify.Message) ([]byte, error) {
	body := []object{text(run(m.Heading(), "bolder", "large"))}
	for _, p := range m.Parts(maxItems) {
		if p.Heading != "" {
			body = append(body, text(run(p.Heading, "bolder", "default")))
		}
		for _, l := range p.Lines {
			body = append(body, text(run(l.Label+": ", "bolder", "default"), run(l.Text, "default", "default")))
		}
		body = append(body, object{"type": "ActionSet", "actions": []object{{"type": "Action.OpenUrl", "title": p.Label, "url": p.Link}}})
	}
	body = append(body, text(run("You cannot decide here. ebb never asks for a decision in a chat.", "default", "small")))
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.5", "body": body}
	b, err := json.Marshal(object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}})
	return agenttext.ASCIIJSON(b), err
}

func text(runs ...object) object { return object{"type": "RichTextBlock", "inlines": runs} }

// run returns a text run. {{DATE(...)}} and {{TIME(...)}} are functions in it, so braces are
// separated.
func run(s, weight, size string) object {
	return object{"type": "TextRun", "text": strings.ReplaceAll(s, "{", "{ "), "weight": weight, "size": size}
}
