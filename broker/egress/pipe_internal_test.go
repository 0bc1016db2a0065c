package egress

import (
	"io"
	"net"
	"strings"
	"testing"
)

// The data before SSH begins is limited (RFC 4253 section 4.2): a line has at most 255 bytes of
// printable US-ASCII, and the lines before a server's identification are limited.
//
//ebb:invariant I12 The bytes and the time before the SSH identification line are limited for client and server
func TestFirstLine(t *testing.T) {
	t.Parallel()
	const line = "SSH-2.0-x\r\n"
	long := "SSH-2.0-" + strings.Repeat("x", 255-len("SSH-2.0-")-2)
	for name, c := range map[string]struct {
		says string
		most int
		well bool
	}{
		"well":                 {line, maxBanner, true},
		"lines before":         {strings.Repeat("hello\r\n", 100) + line, maxBanner, true},
		"of 255 bytes":         {long + "\r\n", maxBanner, true},
		"of 256 bytes":         {long + "x\r\n", maxBanner, false},
		"DEL":                  {"SSH-2.0-x\x7f\r\n", maxBanner, false},
		"above ASCII":          {"SSH-2.0-\xff\r\n", maxBanner, false},
		"lines without end":    {strings.Repeat("hello\r\n", maxBanner/7+1) + line, maxBanner, false},
		"a line without end":   {strings.Repeat("x", maxBanner+1) + "\r\n" + line, maxBanner, false},
		"longer than it may":   {long + "\r\n", 254, false},
		"nothing, then an end": {"", maxBanner, false},
	} {
		us, it := net.Pipe()
		go func() { _, _ = io.WriteString(it, c.says); _ = it.Close() }()
		got, err := firstLine(us, c.most, answerTime, true)
		if (err == nil) != c.well || c.well && string(got) != c.says {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		_ = us.Close()
	}
}
