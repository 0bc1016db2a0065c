package pgsql

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/content"
)

// The bounds of messages that the Guard keeps in memory, in bytes. It forwards all other messages as
// they arrive.
const (
	maxMessage = maxText + 4096 // Query and Parse
	maxError   = 16 << 10       // ErrorResponse
	headerSize = 5              // the type and the length of a message
)

// Guard decides about the statements of one open session (PostgreSQL, chapter "Frontend/Backend
// Protocol", 3.0 and 3.2) before the server receives them.
//
// Instead of a denied statement, the Guard sends one that the server rejects as a syntax error. The
// server thus aborts the transaction, ignores messages until Sync, and answers in the right order.
// The Guard then replaces the server's error by its own.
type Guard struct {
	decide func(Text) *Denial
	set    Settings
	mark   string // of statements that the server rejects
}

// Text is an SQL text that the client wants the server to run.
type Text struct {
	Facts        content.Facts // their Text is set if people can approve exactly this text
	Unapprovable string        // why people cannot approve it, as a clause; "" = they can
	Err          error         // if not nil, the Guard denies the text for this reason and ignores the result of decide
}

// Denial is the Guard's answer to a denied text.
type Denial struct {
	Why  string // a clause
	Hint string // a sentence on what to do; "" = none
}

// NewGuard returns the Guard of a session. It calls decide for each text with a statement, which
// returns nil to allow the text. After an allowed operation that may change settings, they count as
// unknown.
func NewGuard(set Settings, decide func(Text) *Denial) *Guard {
	return &Guard{decide: decide, set: set, mark: "ebb_" + rand.Text() + "_"}
}

// Client returns a writer for the data of the client, which writes the allowed data to the server.
// An error means that the client violates the protocol, or that the server is gone.
func (g *Guard) Client(server io.Writer) io.Writer { return &fromClient{g: g, to: server} }

// Server returns a writer for the data of the server, which writes it to the client.
func (g *Guard) Server(client io.Writer) io.Writer { return &fromServer{g: g, to: client} }

// fromClient splits the data of the client into messages.
type fromClient struct {
	g    *Guard
	to   io.Writer
	out  []byte // to be written
	held []byte // the beginning of a message: its header, or all of a judged one
	want int    // the length of held at which it can be judged
	pass int64  // bytes of the current message that are forwarded
	drop int64  // bytes of the current message that are not
}

// Write implements io.Writer.
func (c *fromClient) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		switch {
		case c.pass > 0:
			n := min(c.pass, int64(len(rest)))
			c.out = append(c.out, rest[:n]...)
			c.pass, rest = c.pass-n, rest[n:]
		case c.drop > 0:
			n := min(c.drop, int64(len(rest)))
			c.drop, rest = c.drop-n, rest[n:]
		default:
			c.want = max(c.want, headerSize)
			n := min(c.want-len(c.held), len(rest))
			c.held, rest = append(c.held, rest[:n]...), rest[n:]
			if len(c.held) < c.want {
				continue
			}
			if err := c.message(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), c.flush()
}

// message handles a message of which the header, or everything, is held.
func (c *fromClient) message() error {
	size, ok := messageSize(c.held)
	if !ok {
		return errors.New("the client sent a message with a length below 4")
	}
	switch kind := c.held[0]; kind {
	case 'Q', 'P':
		switch {
		case size > maxMessage:
			c.deny(errTooLong, size-headerSize)
		case int64(len(c.held)) < size:
			c.want = int(size)
			return nil
		default:
			if err := c.judge(); err != nil {
				return err
			}
		}
	case 'F':
		c.deny(content.Refuse("the client calls a function without SQL"), size-headerSize)
	case 'B', 'C', 'D', 'E', 'H', 'S', 'X', 'c', 'd', 'f':
		c.out = append(c.out, c.held...)
		c.pass = size - headerSize
	default:
		return errors.New("the client sent a message that has no place in an open session")
	}
	c.held, c.want = c.held[:0], 0
	if cap(c.held) > maxError {
		c.held = nil
	}
	return nil
}

// judge decides about a Query or Parse message. Earlier messages are sent first, because a decision
// can take long.
func (c *fromClient) judge() error {
	sql, ok := statementText(c.held)
	if !ok {
		return errors.New("the client sent a malformed Query or Parse message")
	}
	if err := c.flush(); err != nil {
		return err
	}
	facts, err := Classify(sql, c.g.set)
	if err != nil {
		c.deny(err, 0)
		return nil
	}
	if len(facts.Operations) > 0 {
		t := Text{Facts: facts, Unapprovable: unapprovable(c.held[0], sql)}
		if t.Unapprovable == "" {
			t.Facts.Text = sql
		}
		if denied := c.g.decide(t); denied != nil {
			c.refuse(*denied)
			return nil
		}
	}
	if slices.ContainsFunc(facts.Operations, unsettles) {
		c.g.set = Settings{}
	}
	c.out = append(c.out, c.held...)
	return nil
}

// unapprovable returns why people cannot approve exactly this text, as a clause; "" = they can. People
// must see everything that the text does, and the server must run it once.
func unapprovable(kind byte, sql string) string {
	switch {
	case kind != 'Q':
		return "it can be executed many times, with any parameters. Send it as a simple query, with its values in the text"
	case len(sql) > content.MaxText:
		return fmt.Sprintf("it is longer than %d bytes, too long to be shown to a person. Send it in parts", content.MaxText)
	}
	switch all := lower(sql); {
	case strings.Contains(all, "stdin"), strings.Contains(all, "stdout"): // COPY FROM STDOUT is FROM STDIN (gram.y)
		return "its rows are not in the text. Send an INSERT"
	case strings.Contains(all, "password"):
		return "it has the word PASSWORD, and approvals are in the audit log"
	case namedPlan.MatchString(all):
		return "it has the word PREPARE or CURSOR, and the server could run it again by a name. Send the statement itself"
	}
	return ""
}

// namedPlan matches the words that give a statement a name. The messages Bind and Execute, which the
// Guard does not judge, can use such a name, too.
var namedPlan = lazyregexp.New(`\b(?:prepare|(?:ref)?cursor)\b`)

// deny refuses a text that is never allowed, and does not forward the rest of its message.
func (c *fromClient) deny(err error, rest int64) {
	_ = c.g.decide(Text{Err: err}) // for the audit log
	why := err.Error()
	if refused := (*content.Error)(nil); errors.As(err, &refused) {
		why = refused.Why
	}
	c.refuse(Denial{Why: why})
	c.drop = rest
}

// refuse sends a statement that the server rejects, in a message of the same kind.
func (c *fromClient) refuse(d Denial) {
	sql := "'" + c.g.mark + hex.EncodeToString([]byte(d.Why+"\x00"+d.Hint)) + "'\x00"
	kind := byte('Q')
	if c.held[0] == 'P' {
		kind, sql = 'P', "\x00"+sql+"\x00\x00" // the unnamed statement, without parameters
	}
	c.out = append(c.out, kind)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(4+len(sql)))
	c.out = append(c.out, sql...)
}

// flush writes the data that is allowed so far.
func (c *fromClient) flush() (err error) {
	if len(c.out) > 0 {
		_, err = c.to.Write(c.out)
	}
	if c.out = c.out[:0]; cap(c.out) > 4*maxError {
		c.out = nil
	}
	return err
}

// statementText returns the SQL text of a Query or Parse message. Its strings must be the whole
// message: PostgreSQL refuses others too, but only after it has read the text.
func statementText(message []byte) (sql string, ok bool) {
	body := message[headerSize:]
	if message[0] == 'P' {
		_, after, found := bytes.Cut(body, []byte{0}) // the name of the prepared statement
		text, types, complete := bytes.Cut(after, []byte{0})
		return string(text), found && complete && len(types) >= 2 && len(types) == 2+4*int(binary.BigEndian.Uint16(types))
	}
	text, after, found := bytes.Cut(body, []byte{0})
	return string(text), found && len(after) == 0
}

// messageSize returns the size of a message with its type, and false if it is impossible.
func messageSize(header []byte) (int64, bool) {
	n := binary.BigEndian.Uint32(header[1:])
	return int64(n) + 1, n >= 4 && n <= 1<<31-1
}

// fromServer splits the data of the server into messages.
type fromServer struct {
	g    *Guard
	to   io.Writer
	out  []byte
	held []byte // the beginning of a message: its header, or all of an error
	want int
	pass int64
}

// Write implements io.Writer.
func (s *fromServer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.pass > 0 {
			n := min(s.pass, int64(len(rest)))
			s.out = append(s.out, rest[:n]...)
			s.pass, rest = s.pass-n, rest[n:]
			continue
		}
		s.want = max(s.want, headerSize)
		n := min(s.want-len(s.held), len(rest))
		s.held, rest = append(s.held, rest[:n]...), rest[n:]
		if len(s.held) < s.want {
			continue
		}
		size, ok := messageSize(s.held)
		switch {
		case !ok:
			return 0, errors.New("the server sent a message with a length below 4")
		case s.held[0] != 'E' || size > maxError:
			s.pass = size - headerSize
		case int64(len(s.held)) < size:
			s.want = int(size)
			continue
		}
		s.out = append(s.out, s.g.own(s.held)...)
		s.held, s.want = s.held[:0], 0
	}
	_, err := s.to.Write(s.out)
	s.out = s.out[:0]
	return len(p), err
}

// own returns the Guard's error in place of the server's error about a denied statement, and any
// other message as it is.
func (g *Guard) own(message []byte) []byte {
	_, after, is := strings.Cut(string(message), g.mark)
	if message[0] != 'E' || !is {
		return message
	}
	digits, _, _ := strings.Cut(after, "'")
	text, err := hex.DecodeString(digits)
	if err != nil {
		return message
	}
	why, hint, _ := strings.Cut(string(text), "\x00")
	fields := []string{"SERROR", "VERROR", "C42501", "Mebb denied the statement: " + why} // insufficient_privilege
	if hint != "" {
		fields = append(fields, "H"+hint)
	}
	out := []byte{'E', 0, 0, 0, 0}
	for _, field := range fields {
		out = append(append(out, field...), 0)
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-1))
	return out
}
