package pgwire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/broker/egress/pgwire"
)

// client sends all its data at once and records the responses.
type client struct {
	says  io.Reader
	heard bytes.Buffer
}

func (c *client) Read(p []byte) (int, error)  { return c.says.Read(p) }
func (c *client) Write(p []byte) (int, error) { return c.heard.Write(p) }

// inTurn returns the parts of a client's data, each after the one before was read.
func inTurn(parts ...string) io.Reader {
	var all []io.Reader
	for _, p := range parts {
		all = append(all, strings.NewReader(p))
	}
	return io.MultiReader(all...)
}

// packet is a message without a type.
func packet(code uint32, rest string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	return string(binary.BigEndian.AppendUint32(b, code)) + rest
}

// start is a startup packet of a version with parameters.
func start(version uint32, parameters ...string) string {
	return packet(version, strings.Join(parameters, "\x00")+"\x00\x00")
}

func password(text string) string {
	return "p" + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(text)))) + text
}

const v3, ssl, gss, cancel = 3 << 16, 80877103, 80877104, 80877102

var alice = start(v3, "user", "alice", "database", "orders")

// TestHello: first requests of real drivers are accepted, and hostile ones (E122) are refused with
// a reason; each next to a valid one.
//
//ebb:invariant I6 The startup packet of a database session can set only parameters from a fixed list
//ebb:invariant I6 A database session is refused if the client sends data after an encryption request before that request is answered
//ebb:invariant I12 The size of the messages that start a PostgreSQL session is limited
func TestHello(t *testing.T) {
	for name, tt := range map[string]struct {
		says io.Reader
		code string // "" = accepted
	}{
		"plain":                   {inTurn(alice), ""},
		"TLS is offered":          {inTurn(packet(ssl, ""), alice), ""},
		"GSS, then TLS":           {inTurn(packet(gss, ""), packet(ssl, ""), alice), ""},
		"bytes behind TLS":        {inTurn(packet(ssl, "") + alice), pgwire.ProtocolViolation},
		"bytes behind GSS":        {inTurn(packet(gss, "") + alice), pgwire.ProtocolViolation},
		"a byte behind TLS":       {inTurn(packet(ssl, "") + "\x00"), pgwire.ProtocolViolation},
		"TLS with more in it":     {inTurn(packet(ssl, "more"), alice), pgwire.ProtocolViolation},
		"TLS twice":               {inTurn(packet(ssl, ""), packet(ssl, ""), alice), pgwire.ProtocolViolation},
		"GSS twice":               {inTurn(packet(gss, ""), packet(gss, ""), alice), pgwire.ProtocolViolation},
		"settings":                {inTurn(start(v3, "user", "a", "application_name", "psql", "client_encoding", "UTF8", "DateStyle", "ISO", "TimeZone", "UTC", "extra_float_digits", "2")), ""},
		"options":                 {inTurn(start(v3, "user", "a", "options", "-c role=postgres")), pgwire.Unsupported},
		"no options":              {inTurn(start(v3, "user", "a", "options", "")), pgwire.Unsupported},
		"replication":             {inTurn(start(v3, "user", "a", "replication", "true")), pgwire.Unsupported},
		"no replication":          {inTurn(start(v3, "user", "a", "replication", "false")), pgwire.Unsupported},
		"role":                    {inTurn(start(v3, "user", "a", "role", "postgres")), pgwire.Unsupported},
		"a library":               {inTurn(start(v3, "user", "a", "local_preload_libraries", "x")), pgwire.Unsupported},
		"a user in capitals":      {inTurn(start(v3, "user", "a", "USER", "postgres")), pgwire.Unsupported},
		"one setting, two cases":  {inTurn(start(v3, "user", "a", "TimeZone", "UTC", "timezone", "UTC")), pgwire.ProtocolViolation},
		"no name":                 {inTurn(start(v3, "user", "a", "", "x")), pgwire.Unsupported},
		"no user":                 {inTurn(start(v3, "database", "orders")), pgwire.ProtocolViolation},
		"nothing":                 {inTurn(packet(v3, "\x00")), pgwire.ProtocolViolation},
		"no end":                  {inTurn(packet(v3, "user\x00a\x00")), pgwire.ProtocolViolation},
		"half a parameter":        {inTurn(packet(v3, "user\x00a")), pgwire.ProtocolViolation},
		"something behind":        {inTurn(packet(v3, "user\x00a\x00\x00x")), pgwire.ProtocolViolation},
		"a later minor version":   {inTurn(start(v3+2, "user", "a")), ""},
		"an extension":            {inTurn(start(v3, "user", "a", "_pq_.x", "1")), ""},
		"version 2":               {inTurn(start(2<<16, "user", "a")), pgwire.Unsupported},
		"version 4":               {inTurn(start(4<<16, "user", "a")), pgwire.Unsupported},
		"the longest":             {inTurn(start(v3, "user", "a", "application_name", strings.Repeat("x", 9970))), ""},
		"too long":                {inTurn(start(v3, "user", "a", "application_name", strings.Repeat("x", 9971))), pgwire.ProtocolViolation},
		"64 KiB":                  {inTurn(start(v3, "user", "a", "application_name", strings.Repeat("x", 64<<10))), pgwire.ProtocolViolation},
		"a length of 4 GiB":       {inTurn("\xff\xff\xff\xff"), pgwire.ProtocolViolation},
		"a length below its own":  {inTurn("\x00\x00\x00\x03"), pgwire.ProtocolViolation},
		"a length and no version": {inTurn("\x00\x00\x00\x04"), pgwire.ProtocolViolation},
		"cancel":                  {inTurn(packet(cancel, "\x00\x00\x00\x01\x00\x00\x00\x02")), ""},
		"cancel, a short key":     {inTurn(packet(cancel, "\x00\x00\x00\x01\x00\x00")), pgwire.ProtocolViolation},
		"cancel, a long key":      {inTurn(packet(cancel, "\x00\x00\x00\x01"+strings.Repeat("x", 32))), pgwire.ProtocolViolation},
		"cancel and more":         {inTurn(packet(cancel, "\x00\x00\x00\x01\x00\x00\x00\x02") + alice), pgwire.ProtocolViolation},
	} {
		t.Run(name, func(t *testing.T) {
			c := &client{says: tt.says}
			_, err := pgwire.NewServer(c).Hello()
			var r *pgwire.Refusal
			if errors.As(err, &r); (tt.code == "") != (err == nil) || r != nil && r.Code != tt.code || r == nil && tt.code != "" {
				t.Errorf("%v, want %q", err, tt.code)
			}
			if heard := strings.Trim(c.heard.String(), "N"); heard != "" {
				t.Errorf("it heard %q", heard)
			}
		})
	}
}

// TestSession: a client requests TLS, which is refused, sends its startup packet, is asked for its
// password, and gets the parameters of the provider. Early data is refused.
func TestSession(t *testing.T) {
	c := &client{says: inTurn(packet(ssl, ""), start(v3+2, "user", "alice", "TimeZone", "UTC", "_pq_.x", "1"), password("secret\x00"), "Q")}
	s := pgwire.NewServer(c)
	hello, err := s.Hello()
	if err != nil || hello.User != "alice" || hello.Database != "alice" || !maps.Equal(hello.Parameters, map[string]string{"timezone": "UTC"}) {
		t.Fatalf("%+v, %v", hello, err)
	}
	if got, err := s.Password(); err != nil || got != "secret" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := s.Ready(map[string]string{"server_version": "16.1"}, pgwire.Key{ProcessID: 7, Secret: 9}); err != nil {
		t.Fatal(err)
	}
	const want = "N" + "v\x00\x00\x00\x13\x00\x03\x00\x00\x00\x00\x00\x01_pq_.x\x00" + "R\x00\x00\x00\x08\x00\x00\x00\x03" + "R\x00\x00\x00\x08\x00\x00\x00\x00" +
		"S\x00\x00\x00\x18server_version\x0016.1\x00" + "K\x00\x00\x00\x0c\x00\x00\x00\x07\x00\x00\x00\x09" + "Z\x00\x00\x00\x05I"
	if got := c.heard.String(); got != want {
		t.Errorf("it heard\n%q, want\n%q", got, want)
	}
	if rest, err := io.ReadAll(s.Rest()); string(rest) != "Q" || err != nil {
		t.Errorf("then it says %q, %v", rest, err)
	}
}

// TestPassword: only a password that can be read in one way is accepted, and none before it was
// requested.
//
//ebb:invariant I6 A database session is refused if the client sends data after its password before the password is checked
//ebb:invariant I12 The size of the messages that start a PostgreSQL session is limited
func TestPassword(t *testing.T) {
	for name, tt := range map[string]struct {
		says io.Reader
		ok   bool
	}{
		"one":                     {inTurn(alice, password("x\x00")), true},
		"an empty one":            {inTurn(alice, password("\x00")), true},
		"the longest":             {inTurn(alice, password(strings.Repeat("x", 511)+"\x00")), true},
		"too long":                {inTurn(alice, password(strings.Repeat("x", 512)+"\x00")), false},
		"a length of 2 GiB":       {inTurn(alice, "p\x7f\xff\xff\xff"), false},
		"a length below its own":  {inTurn(alice, "p\x00\x00\x00\x03"), false},
		"nothing at all":          {inTurn(alice, "p\x00\x00\x00\x04"), false},
		"no end":                  {inTurn(alice, password("x")), false},
		"two":                     {inTurn(alice, password("x\x00y\x00")), false},
		"another message":         {inTurn(alice, "Q\x00\x00\x00\x06x\x00"), false},
		"before it is asked for":  {inTurn(alice + password("x\x00")), false},
		"a query behind it":       {inTurn(alice, password("x\x00")+"Q\x00\x00\x00\x06x\x00"), false},
		"a query behind the name": {inTurn(alice + "Q\x00\x00\x00\x06x\x00"), false},
	} {
		s := pgwire.NewServer(&client{says: tt.says})
		if _, err := s.Hello(); err != nil {
			t.Fatal(name, err)
		}
		_, err := s.Password()
		if (err == nil) != tt.ok || err != nil && !errors.As(err, new(*pgwire.Refusal)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzHello: data of a client is read only up to the limits and answered with N or nothing.
// Accepted parameters are in the list and contain no NUL byte.
func FuzzHello(f *testing.F) {
	f.Add([]byte(alice))
	f.Add([]byte(packet(ssl, "") + alice))
	f.Add([]byte(packet(gss, "")))
	f.Add([]byte(packet(cancel, "\x00\x00\x00\x01\x00\x00\x00\x02")))
	f.Add([]byte(start(v3, "user", "a", "options", "-c role=postgres")))
	f.Add([]byte(start(v3+2, "user", "a", "_pq_.x", "1")))
	f.Fuzz(func(t *testing.T, says []byte) {
		c := &client{says: iotest.OneByteReader(bytes.NewReader(says))}
		hello, err := pgwire.NewServer(c).Hello()
		if strings.Trim(c.heard.String(), "N") != "" || c.heard.Len() > 2 {
			t.Errorf("it heard %q", c.heard.String())
		}
		if err != nil || hello.Cancel != nil {
			return
		}
		if hello.User == "" || hello.Database == "" || strings.Contains(hello.User+hello.Database, "\x00") {
			t.Errorf("%q at %q", hello.User, hello.Database)
		}
		for name, value := range hello.Parameters {
			if !strings.Contains(" application_name client_encoding datestyle timezone intervalstyle extra_float_digits search_path ", " "+name+" ") || strings.Contains(value, "\x00") {
				t.Errorf("let through: %q = %q", name, value)
			}
		}
	})
}
