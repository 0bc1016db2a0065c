package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// LeftOut stands where a text goes on; a sandbox can write the same.
const LeftOut = "[left out]"

// Head describes the request of a transcript. The audit log contains the same values.
type Head struct {
	ID      string    `json:"id"` // "trn_..."
	At      time.Time `json:"at"` // when it was about to leave
	TaskID  string    `json:"task_id"`
	LeaseID string    `json:"lease_id"`
	Rule    string    `json:"rule"` // that had it written down
	Tool    string    `json:"tool,omitempty"`
	Host    string    `json:"host"` // host:port
	Method  string    `json:"method"`
	Path    string    `json:"path"` // escaped

	root string // the task of a runner's: with it counts what is below it
}

// Transcript is one request and its answer, as its sandbox has them: without the credential, and with
// marks in place of what looks like another one.
type Transcript struct {
	Head
	Query   string   `json:"query,omitempty"` // escaped; "" = there is none, or the rule does not name it
	Request Message  `json:"request"`
	Answer  *Message `json:"answer,omitempty"` // nil = it is not over, or ebb has ended before
}

// Message is one direction.
type Message struct {
	Status  int                 `json:"status,omitempty"`  // of an answer; 0 = the sandbox got none
	Headers map[string][]string `json:"headers,omitempty"` // those that the rule names
	Body    Body                `json:"body"`
	Cut     bool                `json:"cut,omitempty"` // of an answer: it did not end by itself
}

// Body is the text of a body, or the reason for which there is no text.
type Body struct {
	Type  string `json:"type,omitempty"` // media type, without parameters
	Bytes int64  `json:"bytes"`          // that passed, at least: of a request that was cut fewer may have left
	Text  string `json:"text,omitempty"` // its beginning, with marks
	// LeftOut are the bytes behind Text.
	LeftOut int64 `json:"left_out,omitempty"`
	// Withheld is why there is no text; "" = there is, or there is no body.
	Withheld Reason `json:"withheld,omitempty"`
}

// Reason is why a body is not written down.
type Reason string

// Reasons.
const (
	NotAsked   Reason = "not_asked"  // the rule names no bytes of it
	NotText    Reason = "not_text"   // it is of no type that is text, or not what that says
	Compressed Reason = "compressed" // the recorder cannot search it for secrets
)

// ending is the second line.
type ending struct {
	Request Body    `json:"request"`
	Answer  Message `json:"answer"`
}

// line returns v as one line of ASCII, so that a terminal shows escapes instead of control
// characters.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return agenttext.ASCIIJSON(b.Bytes()), nil
}

// ErrTorn is of a file of which the first line is not whole: the machine has ended over it.
var ErrTorn = errors.New("transcript: the file is damaged or was not written by ebb")

// parse reads a file. A second line that is not whole is none: ebb was ended over it.
func parse(text []byte) (Transcript, error) {
	first, rest, whole := bytes.Cut(text, []byte{'\n'})
	var t Transcript
	if !whole || json.Unmarshal(first, &t) != nil {
		return Transcript{}, ErrTorn
	}
	second, _, whole := bytes.Cut(rest, []byte{'\n'})
	if !whole {
		return t, nil
	}
	var e ending
	if json.Unmarshal(second, &e) != nil {
		return Transcript{}, ErrTorn
	}
	t.Request.Body, t.Answer = e.Request, &e.Answer
	return t, nil
}
