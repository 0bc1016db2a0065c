package webhook

import (
	"encoding/json"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/notify"
)

// payload is the JSON body of a message.
type payload struct {
	Type      string    `json:"type"` // an event, or "digest"
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// digest is the data of a message with several notices.
type digest struct {
	Heading string `json:"heading"`
	Items   []item `json:"items"` // highest risk first
	More    int    `json:"more"`  // number of notices that items leaves out
	Link    string `json:"link"`
}

// item is one notice. Names are already made safe to show.
type item struct {
	Event   notify.Event `json:"event"`
	Heading string       `json:"heading"`
	Subject string       `json:"subject"`
	Title   string       `json:"title,omitempty"`
	Risk    string       `json:"risk,omitempty"`
	Reasons []string     `json:"reasons,omitempty"`
	Task    string       `json:"task_id,omitempty"`
	Name    string       `json:"task_name,omitempty"`
	Owner   string       `json:"owner,omitempty"`
	By      string       `json:"by,omitempty"`
	Match   string       `json:"match_code,omitempty"`
	Until   *time.Time   `json:"until,omitempty"`
	Left    int64        `json:"seconds_left,omitempty"`
	Link    string       `json:"link"`
}

const (
	maxItems = 50
	maxText  = 200
)

// body returns m as ASCII JSON.
func body(m notify.Message) ([]byte, error) {
	shown, more := m.Shown(maxItems)
	p := payload{Timestamp: m.At.UTC()}
	if !m.Digest && len(shown) == 1 && more == 0 {
		p.Type, p.Data = string(shown[0].Event), itemOf(m, shown[0])
	} else {
		d := digest{Heading: m.Heading(), Items: []item{}, More: more, Link: m.Page()}
		for _, n := range shown {
			d.Items = append(d.Items, itemOf(m, n))
		}
		p.Type, p.Data = "digest", d
	}
	b, err := json.Marshal(p)
	return agenttext.ASCIIJSON(b), err
}

func itemOf(m notify.Message, n notify.Notice) item {
	text := func(s string) string { return notify.Text(s, maxText) }
	i := item{
		Event: n.Event, Heading: n.Heading(), Subject: text(n.Subject), Title: text(n.Title), Risk: text(n.Risk), Task: text(n.TaskID), Name: text(n.TaskName),
		Owner: text(n.Owner), By: text(n.By), Match: text(n.Match), Link: m.Link(n),
	}
	for _, r := range n.Reasons {
		i.Reasons = append(i.Reasons, text(r))
	}
	if n.Event.Open() && !n.Until.IsZero() {
		until := n.Until.UTC()
		i.Until, i.Left = &until, max(int64(n.Until.Sub(m.At)/time.Second), 0)
	}
	return i
}
