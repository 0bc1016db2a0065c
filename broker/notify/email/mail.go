package email

import (
	"bytes"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

const (
	maxSubject = 120
	maxItems   = 20 // notices in one mail
)

// compose returns the mail, with CRLF. Every header consists of ebb's own words, the
// operator's text, and checked addresses; no header contains another name.
func (s *Sender) compose(m notify.Message, to []string) []byte {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, line(value)) }
	header("From", s.from.String())
	b.WriteString("To: " + strings.Join(to, ",\r\n ") + "\r\n") // folded: there may be many
	header("Subject", mime.QEncoding.Encode("utf-8", notify.Text("ebb: "+m.Heading(), maxSubject)))
	header("Date", m.At.UTC().Format(time.RFC1123Z))
	header("Message-ID", "<"+line(m.ID)+"@"+s.from.Address[strings.IndexByte(s.from.Address, '@')+1:]+">")
	header("Auto-Submitted", "auto-generated")
	header("X-Auto-Response-Suppress", "All")
	if m.To != "" { // to a person, who can change the settings
		header("List-Unsubscribe", "<"+m.Base+"/settings>")
	}
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(text(m))) // to memory
	_ = w.Close()
	return b.Bytes()
}

// line makes a value safe for one header line.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// text returns the body of a mail.
func text(m notify.Message) string {
	var b strings.Builder
	b.WriteString(m.Heading() + "\n")
	for _, p := range m.Parts(maxItems) {
		b.WriteString("\n")
		if p.Heading != "" {
			b.WriteString(p.Heading + "\n")
		}
		for _, l := range p.Lines {
			fmt.Fprintf(&b, "%-11s %s\n", l.Label+":", l.Text)
		}
		b.WriteString(p.Link + "\n")
	}
	b.WriteString("\n-- \nYou cannot decide by answering this mail.\n")
	if m.To != "" {
		fmt.Fprintf(&b, "Your notification settings: %s/settings\n", m.Base)
	}
	return b.String()
}
