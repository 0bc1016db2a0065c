package pgwire

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Startup is the session that a client asks for.
type Startup struct {
	User, Database string            // Database is User when the client names none
	Parameters     map[string]string // settings of the client, all in passed
}

// passed are the settings that a client may choose, in any case: those that drivers send. Some of
// the others load code, or do what only the start of a session can do.
var passed = []string{"application_name", "client_encoding", "datestyle", "timezone", "intervalstyle", "extra_float_digits", "search_path"}

var (
	errStartup   = violation("The startup packet is malformed.")
	errParameter = &Refusal{Code: Unsupported, Message: "The startup packet sets a parameter that ebb does not allow. Leave out options (PGOPTIONS) and replication, and use SET once you are connected. Allowed are user, database, " + strings.Join(passed, ", ") + "."}
)

// readStartup parses a startup packet without its length. negotiate are the requested extensions,
// none of which is supported; newer reports a later minor version of the protocol.
func readStartup(body []byte) (s Startup, negotiate []string, newer bool, err error) {
	version := binary.BigEndian.Uint32(body)
	if version>>16 != pgproto3.ProtocolVersion30>>16 {
		return s, nil, false, &Refusal{Code: Unsupported, Message: "Only version 3 of PostgreSQL's protocol is supported."}
	}
	body = slices.Clone(body)
	binary.BigEndian.PutUint32(body, pgproto3.ProtocolVersion30) // a server answers a later minor version with 3.0
	var m pgproto3.StartupMessage
	if m.Decode(body) != nil {
		return s, nil, false, errStartup
	}
	s.Parameters = map[string]string{}
	for name, value := range m.Parameters {
		folded := strings.ToLower(name)
		switch {
		case name == "user":
			s.User = value
		case name == "database":
			s.Database = value
		case strings.HasPrefix(name, "_pq_."):
			negotiate = append(negotiate, name)
		case !slices.Contains(passed, folded):
			return Startup{}, nil, false, errParameter
		default:
			if _, twice := s.Parameters[folded]; twice {
				return Startup{}, nil, false, errStartup
			}
			s.Parameters[folded] = value
		}
	}
	if s.User == "" {
		return Startup{}, nil, false, violation("The startup packet names no user.")
	}
	if s.Database == "" {
		s.Database = s.User
	}
	slices.Sort(negotiate)
	return s, negotiate, version != pgproto3.ProtocolVersion30, nil
}
