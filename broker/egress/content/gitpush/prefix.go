package gitpush

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

const (
	maxKept = 1 << 20 // bytes of a body that are read before it is forwarded
	maxLine = 2048    // bytes of a pkt-line with its length; a command with capabilities has about 800
)

// errFull reports that maxKept bytes did not suffice.
var errFull = errors.New("the limit of bytes is reached")

var errTruncated = content.Refuse("it ends too early; push again")

// prefix reads the beginning of a body and keeps it, so that it can be forwarded.
type prefix struct {
	rest io.Reader // the unread part
	kept []byte
	at   int   // bytes of kept that are parsed
	err  error // why no more can be read
}

// more reads at least one more byte. Its errors are io.EOF, errFull and those of the body.
func (p *prefix) more() error {
	if len(p.kept) == maxKept && p.err == nil {
		p.err = errFull
	}
	if len(p.kept) == cap(p.kept) {
		grown := make([]byte, len(p.kept), min(maxKept, max(8<<10, 4*cap(p.kept))))
		copy(grown, p.kept)
		p.kept = grown
	}
	before := len(p.kept)
	for len(p.kept) == before && p.err == nil {
		var n int
		n, p.err = p.rest.Read(p.kept[before:cap(p.kept)])
		p.kept = p.kept[:before+n]
	}
	if len(p.kept) == before {
		return p.err
	}
	return nil
}

// take returns the next n bytes, which stay valid.
func (p *prefix) take(n int) ([]byte, error) {
	for len(p.kept)-p.at < n {
		if err := p.more(); err != nil {
			return nil, early(err)
		}
	}
	p.at += n
	return p.kept[p.at-n : p.at], nil
}

// end refuses a body that goes on.
func (p *prefix) end() error {
	if p.at == len(p.kept) {
		switch err := p.more(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return content.Refuse("data follows its end")
}

// ReadByte implements io.ByteReader, so that an inflater reads no byte too many.
func (p *prefix) ReadByte() (byte, error) {
	for p.at == len(p.kept) {
		if err := p.more(); err != nil {
			return 0, err
		}
	}
	p.at++
	return p.kept[p.at-1], nil
}

// Read implements io.Reader.
func (p *prefix) Read(b []byte) (int, error) {
	for p.at == len(p.kept) {
		if err := p.more(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.kept[p.at:])
	p.at += n
	return n, nil
}

// line returns the content of the next pkt-line without its final newline, or nil for a flush packet
// (gitprotocol-common). The special packets 0001 to 0003 have no place in a push. An empty line has
// none either.
func (p *prefix) line() ([]byte, error) {
	line, err := p.rawLine()
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line, err
}

// rawLine is line with the final newline.
func (p *prefix) rawLine() ([]byte, error) {
	head, err := p.take(4)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, c := range head {
		digit := strings.IndexByte("0123456789abcdef", c)
		if digit < 0 {
			return nil, content.Refuse("a line's length is not four digits of 0-9 and a-f")
		}
		n = n<<4 | digit
	}
	switch {
	case n == 0:
		return nil, nil
	case n <= 4:
		return nil, content.Refuse("a line has a length from 1 to 4, which git never sends in a push")
	case n > maxLine:
		return nil, content.Refuse(fmt.Sprintf("a line of its commands is longer than %d bytes", maxLine))
	}
	return p.take(n - 4)
}

// early turns the end of the body into a refusal.
func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}
