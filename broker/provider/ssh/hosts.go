package ssh

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

const (
	port = 22 // of SSH (RFC 4251 section 4)
	// certAuthority marks the key of a CA in known_hosts (sshd(8)).
	certAuthority = "@cert-authority "
)

// parseHosts reads the addresses and host keys of a group.
func (g *group) parseHosts(p *problems, name string, o Group) {
	if isPattern(name) && len(o.Hosts) > 0 {
		p.add("groups, %s: leave out hosts: each host below the domain is one, at port %d", name, port)
	}
	for _, text := range o.Hosts {
		h, err := stricturl.ParseHost(text, port)
		if err != nil {
			p.add("groups, %s: hosts: %q is no name of a host: %v", name, text, err)
			continue
		}
		g.hosts = append(g.hosts, h)
	}
	for _, text := range o.HostKeys {
		line, isCA := strings.CutPrefix(text, certAuthority)
		key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(rest) > 0 {
			p.add("groups, %s: host_keys: a line is no public key: write the line of the host's .pub file, behind %swhere it is that of a CA", name, certAuthority)
			continue
		}
		if _, cert := key.(*ssh.Certificate); cert {
			p.add("groups, %s: host_keys: a line is a certificate: name the key of its CA behind %s", name, certAuthority)
			continue
		}
		line = strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(key)), "\n")
		g.keys = append(g.keys, hostKey{ca: isCA, line: line})
	}
}

// hostKey is one key that hosts of a group prove themselves with, or that signs such keys.
type hostKey struct {
	ca   bool
	line string // type and key
}

// has reports whether a host is one of a group, which may be a pattern.
func (g group) has(name string, h stricturl.Host) bool {
	if _, domain, is := strings.Cut(h.Name, "."); is && name == "*."+domain {
		return h.Port == port
	}
	return slices.Contains(g.hosts, h)
}

// Reaches implements provider.Reacher: a host is one of the groups that the scopes are for.
func (d *Driver) Reaches(s scopes.Set, h stricturl.Host) bool {
	return slices.ContainsFunc(s.Scopes(), func(scope scopes.Scope) bool {
		name, _, _, err := d.set.target(scope)
		if err != nil {
			return false
		}
		if g, known := d.set.groups[name]; known {
			return g.has(name, h)
		}
		return name == h.Name && h.Port == port // a host of a pattern
	})
}

// KnownHosts are the keys of a host as lines of known_hosts (sshd(8)), none when none is
// configured; known is false for a host of no group.
func (d *Driver) KnownHosts(h stricturl.Host) (lines []byte, known bool) {
	var all []string
	for name, g := range d.set.groups {
		if !g.has(name, h) {
			continue
		}
		known = true
		for _, k := range g.keys {
			marker := ""
			if k.ca {
				marker = certAuthority
			}
			all = append(all, fmt.Sprintf("%s%s %s\n", marker, knownhosts.Normalize(h.String()), k.line))
		}
	}
	slices.Sort(all)
	return []byte(strings.Join(slices.Compact(all), "")), known
}
