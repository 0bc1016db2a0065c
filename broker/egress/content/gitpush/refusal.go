package gitpush

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Push has the facts of a push, and the form of an answer that its client can read.
type Push struct {
	content.Facts
	reports bool // the client reads a report of each ref (report-status)
	bands   bool // it reads the report and messages side by side (side-band-64k)
}

// maxBand bounds the data of one packet of a side band, in bytes. git accepts 65,515. A text that names
// 64 scopes twice fits.
const maxBand = 8 << 10

// ReplyType is the media type of Refusal.
const ReplyType = "application/x-git-receive-pack-result"

// Refusal returns the answer of a server that changes no ref (gitprotocol-pack, "Report Status").
// git shows text beside each ref, or above them. It is nil if the client reads no report.
func (p *Push) Refusal(text string) []byte {
	if !p.reports {
		return nil
	}
	text = oneLine(text)
	beside := text
	if p.bands {
		beside = "refused by ebb"
	}
	var report bytes.Buffer
	packet(&report, "unpack ok\n")
	for _, o := range p.Operations {
		packet(&report, "ng "+o.Object+" "+beside+"\n")
	}
	report.WriteString("0000")
	if !p.bands {
		return report.Bytes()
	}
	var out bytes.Buffer
	packet(&out, "\x02"+text+"\n")
	for report.Len() > 0 {
		packet(&out, "\x01"+string(report.Next(maxBand)))
	}
	out.WriteString("0000")
	return out.Bytes()
}

// packet writes one pkt-line (gitprotocol-common).
func packet(to *bytes.Buffer, line string) { fmt.Fprintf(to, "%04x%s", len(line)+4, line) }

// oneLine returns text without control characters, in a length that fits into a packet.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), maxBand)], "")
}
