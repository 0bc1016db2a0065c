package ask

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/web/client"
)

// flow writes the response to a token request: one document, or JSON lines once
// the client was told that the request waits for an approval.
type flow struct {
	w     http.ResponseWriter
	lines bool
}

// wait tells the client which request waits for an approval.
func (f *flow) wait(p client.Pending) {
	if !f.lines {
		f.w.Header().Set("Content-Type", typeLines)
		f.lines = true
	}
	f.say(line{Pending: &pending{RequestID: p.RequestID, Page: p.Page, ExpiresInSeconds: int64(p.ExpiresIn / time.Second)}})
}

func (f *flow) reply(status int, body any) {
	if !f.lines {
		reply(f.w, status, body)
		return
	}
	switch body := body.(type) {
	case answer:
		f.say(line{Answer: &body})
	case refusal:
		f.say(line{Refusal: &body})
	}
}

func (f *flow) say(l line) {
	rc := http.NewResponseController(f.w)
	_ = rc.SetWriteDeadline(time.Now().Add(replyTime)) // every connection of the server has a write deadline
	_ = json.NewEncoder(f.w).Encode(l)                 // the client may be gone
	_ = rc.Flush()
}
