package pgwire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Bounds of what a client says before its session is open, in bytes.
const (
	maxStartup  = 10_000 // PostgreSQL's own: MAX_STARTUP_PACKET_LENGTH
	maxPassword = 512
)

// Codes in place of a version (PostgreSQL, chapter "Message Formats").
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// Key is what cancels a query of a session.
type Key struct{ ProcessID, Secret uint32 }

// Hello is what a client wants: to open a session, or to cancel a query of another one.
type Hello struct {
	Startup
	Cancel *Key // nil = to open one
}

// Server is the server's side of one connection. Its errors that the client caused are Refusals;
// the caller sends them. It is not safe for concurrent use.
type Server struct {
	conn      io.ReadWriter
	in        *bufio.Reader
	negotiate []byte // what is to be said of the version first
}

// NewServer begins with the first byte of a client's.
func NewServer(conn io.ReadWriter) *Server {
	return &Server{conn: conn, in: bufio.NewReaderSize(conn, maxStartup)}
}

// Hello reads what the client wants. Encryption is refused, each kind once: what carries the
// connection ends in the sandbox, and behind it the session is encrypted by the driver.
func (s *Server) Hello() (Hello, error) {
	for asked := map[uint32]bool{}; ; {
		body, err := s.packet()
		if err != nil {
			return Hello{}, err
		}
		switch code := binary.BigEndian.Uint32(body); code {
		case sslRequest, gssRequest:
			// What lies behind the question was not sent by who waits for the answer.
			if len(body) != 4 || asked[code] || s.in.Buffered() > 0 {
				return Hello{}, violation("A request for encryption is followed by something else than its answer.")
			}
			asked[code] = true
			if _, err := s.conn.Write([]byte{'N'}); err != nil {
				return Hello{}, err
			}
		case cancelRequest:
			var c pgproto3.CancelRequest
			if c.Decode(body) != nil || len(c.SecretKey) != 4 || s.in.Buffered() > 0 {
				return Hello{}, errStartup
			}
			return Hello{Cancel: &Key{c.ProcessID, binary.BigEndian.Uint32(c.SecretKey)}}, nil
		default:
			startup, extensions, newer, err := readStartup(body)
			if err != nil {
				return Hello{}, err
			}
			if newer || len(extensions) > 0 {
				s.negotiate, err = (&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: pgproto3.ProtocolVersion30, UnrecognizedOptions: extensions}).Encode(nil)
			}
			return Hello{Startup: startup}, err
		}
	}
}

// packet reads a message without a type: its length, and what follows that.
func (s *Server) packet() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, err
	}
	return s.rest(head, 4, maxStartup)
}

// rest reads what a length, which counts itself, says of the body.
func (s *Server) rest(head [4]byte, least, most uint32) ([]byte, error) {
	n := binary.BigEndian.Uint32(head[:])
	if n < 4+least || n > 4+most {
		return nil, violation("A message before the start of the session is too short or too long.")
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(s.in, body)
	return body, err
}

// Password asks for the password in the clear, and reads it.
func (s *Server) Password() (string, error) {
	ask, err := (&pgproto3.AuthenticationCleartextPassword{}).Encode(s.negotiate)
	if err != nil {
		return "", err
	}
	if s.in.Buffered() > 0 {
		return "", violation("Something follows the start-up packet before it is answered.")
	}
	if _, err := s.conn.Write(ask); err != nil {
		return "", err
	}
	var head [5]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return "", err
	}
	if head[0] != 'p' {
		return "", violation("The answer to the question for a password is none.")
	}
	body, err := s.rest([4]byte(head[1:]), 1, maxPassword)
	if err != nil {
		return "", err
	}
	password, behind, ends := bytes.Cut(body, []byte{0})
	if !ends || len(behind) > 0 || s.in.Buffered() > 0 {
		return "", violation("The password is not read as one, or something follows it before it is judged.")
	}
	return string(password), nil
}

// Ready tells the client that its session is open, and what the server of it says of itself.
// From here on everything is between those two: Rest reads what the client says.
func (s *Server) Ready(parameters map[string]string, key Key) error {
	messages := []pgproto3.BackendMessage{&pgproto3.AuthenticationOk{}}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		messages = append(messages, &pgproto3.ParameterStatus{Name: name, Value: parameters[name]})
	}
	messages = append(messages, &pgproto3.BackendKeyData{ProcessID: key.ProcessID, SecretKey: binary.BigEndian.AppendUint32(nil, key.Secret)}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	var text []byte
	for _, m := range messages {
		var err error
		if text, err = m.Encode(text); err != nil {
			return err
		}
	}
	_, err := s.conn.Write(text)
	return err
}

// Rest is what the client says once its session is open.
func (s *Server) Rest() io.Reader { return s.in }

// Refuse says why there is no session.
func (s *Server) Refuse(r *Refusal) error {
	text, err := r.encode()
	if err == nil {
		_, err = s.conn.Write(text)
	}
	return err
}
