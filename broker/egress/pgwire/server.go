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

// Limits of what a client sends before its session is open, in bytes.
const (
	maxStartup  = 10_000 // PostgreSQL's own: MAX_STARTUP_PACKET_LENGTH
	maxPassword = 512
)

// Request codes in place of a protocol version (PostgreSQL, chapter "Message Formats").
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// Key identifies a session in a request to cancel its query.
type Key struct{ ProcessID, Secret uint32 }

// Hello is the first request of a client: to open a session, or to cancel a query of another
// session.
type Hello struct {
	Startup
	Cancel *Key // nil = open a session
}

// Server is the server side of one connection. Errors that the client caused are Refusals, which
// the caller sends with Refuse. It is not safe for concurrent use.
type Server struct {
	conn      io.ReadWriter
	in        *bufio.Reader
	negotiate []byte // NegotiateProtocolVersion message to send first
}

// NewServer returns a Server for a connection from which nothing has been read.
func NewServer(conn io.ReadWriter) *Server {
	return &Server{conn: conn, in: bufio.NewReaderSize(conn, maxStartup)}
}

// Hello reads the first request. Requests for encryption are refused, each kind once: the
// connection from the sandbox needs none, and the driver encrypts the session to the database.
func (s *Server) Hello() (Hello, error) {
	for asked := map[uint32]bool{}; ; {
		body, err := s.packet()
		if err != nil {
			return Hello{}, err
		}
		switch code := binary.BigEndian.Uint32(body); code {
		case sslRequest, gssRequest:
			// A client waits for this answer before it sends more, so that further data is not the
			// client's.
			if len(body) != 4 || asked[code] || s.in.Buffered() > 0 {
				return Hello{}, violation("The client sent data after a request for encryption, before it was answered.")
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

// packet reads a message without a type: its length and its body.
func (s *Server) packet() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, err
	}
	return s.rest(head, 4, maxStartup)
}

// rest reads the body of a message. The length in head counts itself; least and most limit the
// body.
func (s *Server) rest(head [4]byte, least, most uint32) ([]byte, error) {
	n := binary.BigEndian.Uint32(head[:])
	if n < 4+least || n > 4+most {
		return nil, violation("A message before the start of the session is too short or too long.")
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(s.in, body)
	return body, err
}

// Password requests the password in clear text, and reads it.
func (s *Server) Password() (string, error) {
	ask, err := (&pgproto3.AuthenticationCleartextPassword{}).Encode(s.negotiate)
	if err != nil {
		return "", err
	}
	if s.in.Buffered() > 0 {
		return "", violation("The client sent data after the startup packet, before it was answered.")
	}
	if _, err := s.conn.Write(ask); err != nil {
		return "", err
	}
	var head [5]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return "", err
	}
	if head[0] != 'p' {
		return "", violation("The client did not answer the password request with a password.")
	}
	body, err := s.rest([4]byte(head[1:]), 1, maxPassword)
	if err != nil {
		return "", err
	}
	password, behind, ends := bytes.Cut(body, []byte{0})
	if !ends || len(behind) > 0 || s.in.Buffered() > 0 {
		return "", violation("The password message is malformed, or data follows it before it was answered.")
	}
	return string(password), nil
}

// Ready tells the client that its session is open, with the parameters of the database server. From
// here on the caller relays the session: Rest reads the data of the client.
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

// Rest reads the data of the client in an open session.
func (s *Server) Rest() io.Reader { return s.in }

// Refuse sends the reason why no session is opened.
func (s *Server) Refuse(r *Refusal) error {
	text, err := r.encode()
	if err == nil {
		_, err = s.conn.Write(text)
	}
	return err
}
