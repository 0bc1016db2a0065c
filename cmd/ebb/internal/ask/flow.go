package ask

import (
	"encoding/json"
	"net/http"
	"time"

	"ebb/web/client"
)

// flow is the answer to a question that may wait for a person: one document, or, once the
// box was told that somebody decides, lines.
type flow struct {
	w     http.ResponseWriter
	lines bool
}

// wait tells the box who decides.
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
	_ = rc.SetWriteDeadline(time.Now().Add(replyTime)) // every connection of the server has one
	_ = json.NewEncoder(f.w).Encode(l)                 // who asked may be gone
	_ = rc.Flush()
}
