package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker/agenttext"
	"ebb/broker/egress/redact"
	"ebb/broker/transcript"
)

type transcriptPage struct {
	transcript.Transcript
	Line       []said // method, path and query
	Sent, Told message
}

// Mark is what stands where a secret stood.
func (transcriptPage) Mark() string { return redact.Mark }

// message is one direction as it is drawn.
type message struct {
	Heading string // of ours
	ID      string // of the heading
	Headers []header
	Body    []said
	Size    string // of the body, as far as that is known
	Note    string // what of the body is not here, and why
}

type header struct {
	Name  string
	Value []said
}

// said is a part of a text that a box sent or was told, drawn so that nothing hides in it.
type said struct {
	Text string
	Mark bool // ebb put it in the place of something; or the box has written the same words
}

// saidOf takes a text that is drawn apart at its marks.
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

// beginning draws a text in one line, and of a longer one so many bytes.
func beginning(text string, most int) string {
	if len(text) <= most {
		return agenttext.Name(text)
	}
	kept := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s[+%d]", agenttext.Name(kept), len(text)-len(kept))
}

// transcript shows one, whole. The broker has put on the record that it is read before it is here.
func (s *Console) transcript(c echo.Context, v *visit) error {
	t, err := s.b.Transcript(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	line := t.Method + " " + t.Path
	if t.Query != "" {
		line += "?" + t.Query
	}
	page := transcriptPage{Transcript: t, Line: saidOf(agenttext.Name(line)), Sent: messageOf(t.Request, "request")}
	if page.Sent.Heading, page.Sent.ID = "What the box sent, not checked", "sent"; t.Answer == nil {
		page.Sent.Size, page.Sent.Note = "", "What there is to say of the body is written down when the request is over."
	} else {
		page.Told = messageOf(*t.Answer, "answer")
		page.Told.Heading, page.Told.ID = "What the box was told, not checked", "told"
	}
	return s.draw(c, http.StatusOK, v, "transcript", frame{Title: "Transcript", Nav: "/audit"}, page)
}

// messageOf is what there is of one direction: "request" or "answer", as rules call it.
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
	out.Body, out.Note = saidOf(editable(b.Text)), notWritten(b, direction)
	return out
}

// notWritten says what of a body is not written down, and why.
func notWritten(b transcript.Body, direction string) string {
	switch b.Withheld {
	case "":
		if b.LeftOut == 0 {
			return ""
		}
		return fmt.Sprintf("The last %s of it are not written down: the rule has no more written (%s_bytes), or ebb could not look through them for secrets.", counted(b.LeftOut, "byte"), direction)
	case transcript.NotAsked:
		return "It is not written down: the rule has no bytes of it written (" + direction + "_bytes)."
	case transcript.NotText:
		return "It is not written down: it is no text by its type, or not what that type says, so that nobody could look through it for secrets."
	case transcript.Compressed:
		return "It is not written down: it was compressed, so that nobody could look through it for secrets."
	}
	return "It is not written down (" + agenttext.Name(string(b.Withheld)) + ")."
}

// counted is a number of things.
func counted(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
