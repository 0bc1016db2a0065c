package ssh

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Options are the provider's part of the configuration. docs/providers/ssh.md
// says how hosts are set up for each.
type Options struct {
	// Groups maps host groups to their allowed requests. A name is a lower-case word, or a pattern
	// *.example.com for every host directly below that domain. Required.
	Groups map[string]Group `json:"groups"`
	// Commands maps names to commands that a certificate can be held to: action
	// run.<name>.
	Commands map[string]string `json:"commands"`
	// SourceAddress are the CIDR ranges that connections must come from; a group's
	// own replace them. None = from anywhere.
	SourceAddress []string `json:"source_address"`
	// Principals is "group" (default): <login>@<group>, or "login": the login
	// alone, for hosts without AuthorizedPrincipals; then there is one group.
	Principals string `json:"principals"`
	// MaxTTL bounds a certificate's life: 1m to 24h, default 1h.
	MaxTTL string     `json:"max_ttl"`
	CA     CAOptions  `json:"ca"`
	KRL    KRLOptions `json:"krl"`
	Kill   *Kill      `json:"kill"`
}

// Group is one group of hosts.
type Group struct {
	Logins        []string `json:"logins"` // required: accounts on the hosts
	SourceAddress []string `json:"source_address"`
	// Hosts are the names that sandboxes reach the group's hosts by through egress, with :port
	// where that is not 22; a pattern has none. HostKeys are what these hosts prove themselves
	// with: lines of .pub files, of a CA behind "@cert-authority ".
	Hosts    []string `json:"hosts"`
	HostKeys []string `json:"host_keys"`
}

// CAOptions say where the CA's key is. By default ebb makes one beside its own
// signing keys.
type CAOptions struct {
	KeyFile string   `json:"key_file"` // OpenSSH private key, Ed25519, mode 0600; nothing rotates by itself then
	Trusted []string `json:"trusted"`  // with KeyFile: public keys that hosts shall trust besides, one file each

	RotateEvery string `json:"rotate_every"` // without KeyFile; default: never by itself
	Lead        string `json:"lead"`         // a new key is published so long before it signs; default 24h
}

// KRLOptions defines how hosts learn of revoked certificates.
type KRLOptions struct {
	// Refresh is how often every host fetches the list: 1s to 1h, whole seconds.
	// Required: ebb promises it and the age that the list may have then.
	Refresh string `json:"refresh"`
	File    string `json:"file"` // absolute path; kept up to date by this ebb
	URL     string `json:"url"`  // where hosts fetch the list, for the probe
}

// Kill is a command that ends open sessions. It is run without a shell.
type Kill struct {
	Command []string `json:"command"` // absolute path, then arguments
	Timeout string   `json:"timeout"` // 1s to 60s, default 10s
}

// settings are Options that were checked.
type settings struct {
	Options
	sources  []netip.Prefix
	groups   map[string]group
	maxTTL   time.Duration
	refresh  time.Duration
	rotate   time.Duration
	lead     time.Duration
	killTime time.Duration
}

// bound is the operator's word about the hosts, and the age that the list may have
// when they fetch it: a reading of the record, and the round of another replica's
// file.
func (s settings) bound() time.Duration {
	b := s.refresh + fresh
	if s.KRL.File != "" {
		b += fileRound
	}
	return b
}

type group struct {
	logins  []string
	sources []netip.Prefix
	hosts   []stricturl.Host // of a pattern: none
	keys    []hostKey
}

var (
	loginForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)
	groupForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	commandForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,27}$`)
)

const (
	principalsGroup = "group"
	principalsLogin = "login"

	// never is a rotation that does not come by itself.
	never = 100 * 365 * 24 * time.Hour
	// maxCommand bounds a forced command, which is part of every certificate.
	maxCommand = 1024
)

func (o Options) check() (settings, error) {
	s := settings{Options: o, groups: map[string]group{}}
	var p problems
	s.sources = p.prefixes("source_address", o.SourceAddress)
	if len(o.Groups) == 0 {
		p.add("groups is empty: name the hosts and the logins that certificates may be for")
	}
	for name, g := range o.Groups {
		s.group(&p, name, g)
	}
	for name, c := range o.Commands {
		if !commandForm.MatchString(name) {
			p.add("commands: %q is no name: 1 to 28 of a-z 0-9 _ . -, a letter or digit first", name)
		}
		if c == "" || len(c) > maxCommand || !printable(c) {
			p.add("commands, %s: 1 to %d printable ASCII characters are required", name, maxCommand)
		}
	}
	switch o.Principals {
	case "":
		s.Principals = principalsGroup
	case principalsGroup:
	case principalsLogin:
		// A bare login is accepted by every host that trusts the CA: it is exact only
		// where that is one group.
		if len(o.Groups) != 1 || slices.ContainsFunc(slices.Collect(maps.Keys(o.Groups)), isPattern) {
			p.add("principals: login needs exactly one group, which is no pattern: give each group a provider and so a CA of its own, or use principals: group")
		}
	default:
		p.add(`principals is %q: it must be "group" or "login"`, o.Principals)
	}
	s.maxTTL = p.duration("max_ttl", o.MaxTTL, time.Hour, time.Minute, 24*time.Hour)
	s.authority(&p, o.CA)
	s.list(&p, o.KRL)
	if k := o.Kill; k != nil {
		s.killTime = p.duration("kill.timeout", k.Timeout, 10*time.Second, time.Second, time.Minute)
		if len(k.Command) == 0 || !filepath.IsAbs(k.Command[0]) {
			p.add("kill.command must begin with the absolute path of a program")
		}
	}
	return s, errors.Join(p...)
}

func (s *settings) group(p *problems, name string, g Group) {
	if !groupForm.MatchString(strings.TrimPrefix(name, "*.")) {
		p.add("groups: %q is no name: 1 to 63 of a-z 0-9 . -, or such a domain after *.", name)
	}
	if len(g.Logins) == 0 {
		p.add("groups, %s: logins is empty: name the accounts", name)
	}
	for _, l := range g.Logins {
		if !loginForm.MatchString(l) {
			p.add("groups, %s: %q is no login", name, l)
		}
	}
	sources := s.sources
	if len(g.SourceAddress) > 0 {
		sources = p.prefixes("groups, "+name+", source_address", g.SourceAddress)
	}
	checked := group{logins: g.Logins, sources: sources}
	checked.parseHosts(p, name, g)
	s.groups[name] = checked
}

func (s *settings) authority(p *problems, c CAOptions) {
	if c.KeyFile == "" && len(c.Trusted) > 0 {
		p.add("ca.trusted needs ca.key_file: the keys that ebb makes are published by themselves")
	}
	if c.KeyFile != "" && (c.RotateEvery != "" || c.Lead != "") {
		p.add("ca.key_file does not rotate by itself: leave out ca.rotate_every and ca.lead")
	}
	s.lead = p.duration("ca.lead", c.Lead, 24*time.Hour, time.Second, 30*24*time.Hour)
	s.rotate = p.duration("ca.rotate_every", c.RotateEvery, never, 2*s.lead, never)
}

func (s *settings) list(p *problems, k KRLOptions) {
	if k.Refresh == "" {
		p.add("krl.refresh is missing: say how often your hosts fetch the revocation list (60s, for example); it is what ebb promises")
	} else if s.refresh = p.duration("krl.refresh", k.Refresh, 0, time.Second, time.Hour); s.refresh%time.Second != 0 {
		p.add("krl.refresh must be whole seconds")
	}
	if k.File != "" && !filepath.IsAbs(k.File) {
		p.add("krl.file must be an absolute path")
	}
	if k.URL != "" {
		u, err := url.Parse(k.URL)
		switch {
		case err != nil || u.Host == "" || u.User != nil:
			p.add("krl.url is no URL without credentials")
		case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
			p.add("krl.url must be https: whoever can change the list on its way can revive what is revoked")
		}
	}
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// printable reports whether s is printable ASCII.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func isPattern(group string) bool { return strings.HasPrefix(group, "*.") }

// problems collects the problems of a configuration.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// prefixes reads CIDR ranges. One with bits beyond its mask is refused by sshd
// together with every certificate that carries it.
func (p *problems) prefixes(key string, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil || prefix.Addr().Zone() != "" || prefix.Addr().Is4In6():
			p.add("%s: %q is no CIDR range such as 10.0.0.0/8", key, text)
		case prefix != prefix.Masked():
			p.add("%s: %q has bits beyond its mask: it must be %s", key, text, prefix.Masked())
		default:
			out = append(out, prefix)
		}
	}
	return out
}

func (p *problems) duration(key, text string, otherwise, least, most time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		p.add("%s is %q: it must be a duration from %s to %s", key, text, least, most)
		return otherwise
	}
	return d
}

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
