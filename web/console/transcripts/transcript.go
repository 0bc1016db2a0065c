package transcripts

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

type transcriptPage struct {
	transcript.Transcript
	TaskName   string
	Line       []said // method, path and query
	Sent, Told message
}

// Mark returns the text that replaces a redacted secret.
func (transcriptPage) Mark() string { return redact.Mark }

// message is one direction of a transcript, ready to be shown.
type message struct {
	Heading string // fixed text, not from the transcript
	ID      string // HTML id of the heading
	Headers []header
	Body    []said
	Size    string // of the body, if known
	Note    string // which part of the body is missing, and why
}

type header struct {
	Name  string
	Value []said
}

// said is a part of a text that a sandbox sent or received, with invisible characters escaped.
type said struct {
	Text string
	Mark bool // Text is a redaction mark of ebb, or the same words written by the sandbox
}

// saidOf splits an escaped text at its redaction marks.
func saidOf(drawn string) []said {
	var out []said
	for drawn != "" {
		at, mark := len(drawn), ""
		for _, m := range []string{redact.Mark, transcript.LeftOut} {
			if i := strings.Index(drawn, m); i >= 0 && i < at {
				at, mark = i, m
			}
		}
		if at > 0 {
			out = append(out, said{Text: drawn[:at]})
		}
		if mark != "" {
			out = append(out, said{mark, true})
		}
		drawn = drawn[at+len(mark):]
	}
	return out
}

// beginning escapes a text for one line. A text longer than most bytes is cut,
// with the number of missing bytes at the end.
func beginning(text string, most int) string {
	if len(text) <= most {
		return agenttext.Name(text)
	}
	kept := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s[+%d]", agenttext.Name(kept), len(text)-len(kept))
}

// transcript shows a whole transcript. The broker writes the audit entry of the
// read before it returns the transcript.
func (ps *Pages) transcript(c echo.Context, v *session.Visit) error {
	t, err := ps.Broker.Transcript(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	line := t.Method + " " + t.Path
	if t.Query != "" {
		line += "?" + t.Query
	}
	names, err := list.TaskNames(c.Request().Context(), ps.Broker, v.Principal, []string{t.TaskID}, func(id string) string { return id })
	if err != nil {
		return err
	}
	page := transcriptPage{Transcript: t, TaskName: names[t.TaskID], Line: saidOf(agenttext.Name(line)), Sent: messageOf(t.Request, "request")}
	if page.Sent.Heading, page.Sent.ID = "Request from the sandbox, not checked", "sent"; t.Answer == nil {
		page.Sent.Size, page.Sent.Note = "", "The body is recorded when the request is complete."
	} else {
		page.Told = messageOf(*t.Answer, "answer")
		page.Told.Heading, page.Told.ID = "Response to the sandbox, not checked", "told"
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "transcript", shell.Frame{Title: "Transcript", Nav: "/audit"}, page)
}

// messageOf returns one direction of a transcript. direction is "request" or
// "answer", as in the names of rule options.
func messageOf(m transcript.Message, direction string) message {
	var out message
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		for _, value := range m.Headers[name] {
			out.Headers = append(out.Headers, header{name, saidOf(agenttext.Name(value))})
		}
	}
	b := m.Body
	if b.Bytes == 0 && b.Text == "" {
		out.Size = "none"
		return out
	}
	if out.Size = counted(b.Bytes, "byte"); b.Type != "" {
		out.Size += ", " + agenttext.Name(b.Type)
	}
	out.Body, out.Note = saidOf(shell.Editable(b.Text)), notWritten(b, direction)
	return out
}

// notWritten explains which part of a body was not recorded, and why.
func notWritten(b transcript.Body, direction string) string {
	switch b.Withheld {
	case "":
		if b.LeftOut == 0 {
			return ""
		}
		return fmt.Sprintf("The last %s are not recorded: the rule records no more (%s_bytes), or ebb could not search them for secrets.", counted(b.LeftOut, "byte"), direction)
	case transcript.NotAsked:
		return "The body is not recorded: the rule records 0 bytes of it (" + direction + "_bytes)."
	case transcript.NotText:
		return "The body is not recorded: it is not text, or does not match its content type, so ebb could not search it for secrets."
	case transcript.Compressed:
		return "The body is not recorded: it was compressed, so ebb could not search it for secrets."
	}
	return "The body is not recorded (" + agenttext.Name(string(b.Withheld)) + ")."
}

// counted returns a number with its noun in the right form: 1 byte, 2 bytes.
func counted(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
