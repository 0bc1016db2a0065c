package webhook

import (
	"encoding/json"
	"slices"
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
	notify.Notice
	Heading string `json:"heading"`
	Left    int64  `json:"seconds_left,omitempty"`
	Link    string `json:"link"`
	Path    string `json:"path,omitempty"` // hides that of Notice, which is a part of Link
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
	i := item{Notice: n, Heading: n.Heading(), Link: m.Link(n)}
	i.Reasons, i.Only = slices.Clone(n.Reasons), slices.Clone(n.Only)
	texts := []*string{&i.Subject, &i.Title, &i.Risk, &i.TaskID, &i.TaskName, &i.Owner, &i.By, &i.Granted, &i.Code, &i.Match}
	for at := range i.Reasons {
		texts = append(texts, &i.Reasons[at])
	}
	for at := range i.Only {
		texts = append(texts, &i.Only[at])
	}
	for _, text := range texts {
		*text = notify.Text(*text, maxText)
	}
	if i.Until = n.Until.UTC(); !n.Event.Open() || n.Until.IsZero() {
		i.Until = time.Time{}
	} else {
		i.Left = max(int64(n.Until.Sub(m.At)/time.Second), 0)
	}
	return i
}
