package email

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Options are the channel's settings in the configuration.
type Options struct {
	// Server is smtps://host:465 (TLS from the start) or smtp://host:587 (STARTTLS,
	// optional only on loopback).
	Server   string     `json:"server"`
	From     string     `json:"from"`     // address, or Name <address>
	To       []string   `json:"to"`       // addresses, for example of a team
	People   bool       `json:"people"`   // also to each person concerned, according to their settings in the console
	Username string     `json:"username"` // "" = none
	Password notify.Key `json:"password"`
	CAFile   string     `json:"ca_file"`                 // PEM; "" = the system's
	Private  bool       `json:"allow_private_addresses"` // the server's name may resolve to one
}

// Config holds the arguments of New.
type Config struct {
	Options
	Look func(string) (string, bool) // os.LookupEnv
	// Timeout of one conversation; 0 = 20 s.
	Timeout time.Duration
}

// Sender sends mails through one mail server.
type Sender struct {
	cfg      Config
	host     string
	addr     string // host:port
	implicit bool   // TLS from the start
	from     *mail.Address
	to       []string
	password secret.Secret
	roots    *x509.CertPool
}

var _ notify.Sender = (*Sender)(nil)

// maxTo is the maximum number of addresses of one mail.
const maxTo = 50

// New checks the configuration and reads the password. It opens no connection.
func New(c Config) (*Sender, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("server: write smtps://mail.example.com:465 or smtp://mail.example.com:587")
	}
	s := &Sender{cfg: c, host: u.Hostname(), implicit: u.Scheme == "smtps"}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "465", false: "587"}[s.implicit]
	}
	s.addr = net.JoinHostPort(s.host, port)
	if s.cfg.Timeout <= 0 {
		s.cfg.Timeout = 20 * time.Second
	}
	if s.from, err = address(c.From); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if len(c.To) == 0 && !c.People || len(c.To) > maxTo {
		return nil, fmt.Errorf("to: name 1 to %d addresses, or set people", maxTo)
	}
	for _, text := range c.To {
		a, err := address(text)
		if err != nil {
			return nil, fmt.Errorf("to: %w", err)
		}
		s.to = append(s.to, a.Address)
	}
	if (c.Username == "") == c.Password.Set() {
		return nil, errors.New("username and password belong together")
	}
	if c.Password.Set() {
		if s.password, err = c.Password.Read(c.Look); err != nil {
			return nil, fmt.Errorf("password: %w", err)
		}
	}
	if s.roots, err = provider.Roots(c.CAFile); err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	return s, nil
}

// address parses an address that every server accepts (RFC 5321, section 4.1.2): ASCII,
// without characters that could end a line or a command.
func address(text string) (*mail.Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New("it is not a mail address such as ebb@example.com")
	}
	local, domain, found := strings.Cut(a.Address, "@")
	if !found || len(a.Address) > 254 || local == "" || domain == "" || strings.ContainsFunc(a.Address, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`<>()[]\,;:"`, r)
	}) || strings.Count(a.Address, "@") != 1 || strings.ContainsAny(a.Name, "\r\n") {
		return nil, errors.New("it is not a mail address in ASCII such as ebb@example.com")
	}
	return a, nil
}

// Where implements notify.Sender.
func (s *Sender) Where() string {
	return map[bool]string{true: "smtps://", false: "smtp://"}[s.implicit] + s.addr
}
