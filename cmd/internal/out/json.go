package out

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// writeJSON prints v indented and in ASCII: a terminal shows the escape of a
// character instead of executing it, and a JSON parser gets the same text.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(agenttext.ASCIIJSON(b.Bytes()))
	return err
}

// Lines prints v as one line of ASCII JSON, for streams.
func Lines(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(agenttext.ASCIIJSON(b.Bytes()))
	return err
}
