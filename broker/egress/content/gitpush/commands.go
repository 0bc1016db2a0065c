package gitpush

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

const maxShallow = 4096 // boundaries of a shallow clone

// format is an object format: the hash that makes the ids of a repository.
type format struct {
	name   string
	digits int // of an id in hexadecimal
}

var (
	sha1Format   = format{"sha1", 40}
	sha256Format = format{"sha256", 64}
)

// isID reports whether id is an id of the format, in lower case.
func (f format) isID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(id) == f.digits
}

// command changes one ref. Its ids are hexadecimal; an empty one is git's zero id.
type command struct{ before, after, ref string }

// section is the part of a push before its pack (gitprotocol-pack, "Reference Update Request and
// Packfile Transfer").
type section struct {
	format   format
	commands []command
	count    int             // commands, including those beyond content.MaxOperations
	shallow  map[string]bool // commits whose parents the client does not have
	signed   bool            // the commands are in a push certificate
	reports  bool            // report-status, or report-status-v2
	bands    bool            // side-band-64k
}

// readSection reads up to the flush packet that ends the commands.
func readSection(p *prefix) (*section, error) {
	s := &section{format: sha1Format}
	line, err := s.readShallow(p)
	if err != nil {
		return nil, err
	}
	for first := true; line != nil; first = false {
		if first {
			line, err = s.readCapabilities(line)
		}
		switch {
		case err != nil:
		case first && string(line) == "push-cert":
			err = s.readCertificate(p)
		case s.signed:
			err = content.Refuse("it has commands outside its push certificate")
		default:
			err = s.add(string(line))
		}
		if err != nil {
			return nil, err
		}
		if line, err = p.line(); err != nil {
			return nil, err
		}
	}
	if s.count > content.MaxOperations {
		return nil, content.Refuse(fmt.Sprintf("it changes %d refs, and a push may change %d; push fewer at once", s.count, content.MaxOperations))
	}
	for id := range s.shallow {
		if !s.format.isID(id) {
			return nil, errCommand
		}
	}
	return s, nil
}

// readShallow reads the shallow lines and returns the line after them. git sends them first.
func (s *section) readShallow(p *prefix) (line []byte, err error) {
	for {
		line, err = p.line()
		id, found := bytes.CutPrefix(line, []byte("shallow "))
		if err != nil || !found {
			return line, err
		}
		if s.shallow == nil {
			s.shallow = map[string]bool{}
		}
		s.shallow[string(id)] = true
		if len(s.shallow) > maxShallow {
			return nil, content.Refuse(fmt.Sprintf("its clone has more than %d shallow commits; fetch more history with 'git fetch --unshallow'", maxShallow))
		}
		if len(id) == sha256Format.digits {
			s.format = sha256Format // a push without commands has no capabilities, which decide otherwise
		}
	}
}

// readCapabilities parses the capabilities behind the first command (gitprotocol-capabilities) and
// returns the command. git searches the list for words, and other servers split it: both find the
// same words between single characters that print.
func (s *section) readCapabilities(line []byte) ([]byte, error) {
	line, list, _ := bytes.Cut(line, []byte{0})
	s.format = sha1Format
	var seen []string
	for _, c := range list {
		if c < ' ' || c > '~' {
			return nil, content.Refuse("its capabilities contain bytes that do not print")
		}
	}
	for word := range strings.SplitSeq(string(list), " ") {
		if word == "" {
			continue
		}
		name, value, valued := strings.Cut(word, "=")
		if slices.Contains(seen, name) {
			return nil, content.Refuse("it states a capability twice")
		}
		seen = append(seen, name)
		switch name {
		case "report-status", "report-status-v2", "side-band-64k", "quiet", "atomic", "delete-refs", "ofs-delta", "no-thin":
			if valued {
				return nil, content.Refuse("it gives a value to a capability that has none")
			}
			s.reports = s.reports || strings.HasPrefix(name, "report-status")
			s.bands = s.bands || name == "side-band-64k"
		case "agent", "session-id":
		case "object-format":
			switch value {
			case sha1Format.name:
			case sha256Format.name:
				s.format = sha256Format
			default:
				return nil, content.Refuse("its object format is neither sha1 nor sha256")
			}
		case "push-options":
			return nil, content.Refuse("it has push options, whose effects at the server no scope describes; push without -o")
		default:
			return nil, content.Refuse("it states a capability that ebb does not know")
		}
	}
	return line, nil
}

var errCommand = content.Refuse("a command does not consist of two ids of the stated object format and a ref's name")

// add parses a command.
func (s *section) add(line string) error {
	if strings.Contains(line, "\x00") {
		return content.Refuse("it has a NUL byte elsewhere than before its one list of capabilities")
	}
	n := s.format.digits
	if len(line) < 2*n+2 || line[n] != ' ' || line[2*n+1] != ' ' {
		return errCommand
	}
	c := command{before: line[:n], after: line[n+1 : 2*n+1], ref: line[2*n+2:]}
	if !s.format.isID(c.before) || !s.format.isID(c.after) {
		return errCommand
	}
	if err := checkRef(c.ref); err != nil {
		return err
	}
	if c.before == c.after {
		return content.Refuse("a command has the same id before and after")
	}
	for _, id := range []*string{&c.before, &c.after} {
		if strings.Trim(*id, "0") == "" {
			*id = ""
		}
	}
	if s.count++; s.count > content.MaxOperations {
		return nil
	}
	if slices.ContainsFunc(s.commands, func(other command) bool { return other.ref == c.ref }) {
		return content.Refuse("it changes a ref twice")
	}
	s.commands = append(s.commands, c)
	return nil
}

// hasPack reports whether a pack must follow.
func (s *section) hasPack() bool {
	return slices.ContainsFunc(s.commands, func(c command) bool { return c.after != "" })
}

const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

var errCertificate = content.Refuse("its push certificate does not have the form that git writes; push without --signed")

// readCertificate reads a push certificate up to push-cert-end. It consists of headers, an empty
// line, commands and one signature. Each line is a packet: servers that join the packets and servers
// that read them singly then find the same commands. The signature is the server's to check.
func (s *section) readCertificate(p *prefix) error {
	s.signed = true
	part, lines := 0, 0 // parts: 0 version, 1 headers, 2 commands, 3 signature, 4 its end
	for {
		raw, err := p.rawLine()
		if err != nil {
			return err
		}
		line, ended := strings.CutSuffix(string(raw), "\n")
		if !ended || strings.ContainsAny(line, "\n\x00") {
			return errCertificate
		}
		switch lines++; {
		case part == 0 && line == "certificate version 0.1":
			part = 1
		case part == 1 && line == "" && lines > 2:
			part = 2
		case part == 1 && (strings.HasPrefix(line, "pusher ") || strings.HasPrefix(line, "pushee ") || strings.HasPrefix(line, "nonce ")):
		case part == 2 && strings.HasPrefix(line, "-----BEGIN ") && s.count > 0:
			part = 3
		case part == 2:
			if err := s.add(line); err != nil {
				return err
			}
		case part == 3 && strings.HasPrefix(line, "-----END "):
			part = 4
		case part == 3 && (strings.Contains(line, ": ") || strings.Trim(line, base64) == ""): // never push-cert-end, where git ends the certificate
		case part == 4 && line == "push-cert-end":
			return nil
		default:
			return errCertificate
		}
	}
}
