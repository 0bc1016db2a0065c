package broker

import (
	"encoding/json"

	"ebb/broker/audit"
)

// self is the actor of what the broker does by itself.
const self = "ebb"

// entry drafts one line of the record. data must marshal to a JSON object and
// must not hold a secret.
func (b *Broker) entry(kind, actor string, data any) audit.Entry {
	e := audit.Entry{At: b.now(), Kind: kind, Actor: actor}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil { // a programming error: the line is worth more than its data
			raw, _ = json.Marshal(map[string]string{"unencodable": err.Error()})
		}
		e.Data = raw
	}
	return e
}

// taskEntry drafts a line about a task.
func (b *Broker) taskEntry(kind, actor, taskID string, data any) audit.Entry {
	e := b.entry(kind, actor, data)
	e.TaskID = taskID
	return e
}
