package ssh

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Options are the provider's part of the configuration. docs/providers/ssh.md describes the
// set-up of hosts for each option.
type Options struct {
	// Groups maps host groups to their allowed requests. A name is a lower-case word, or a pattern
	// *.example.com for every host directly below that domain. Required.
	Groups map[string]Group `json:"groups"`
	// Commands maps names to forced commands of certificates; the action of a name is
	// run.<name>.
	Commands map[string]string `json:"commands"`
	// SourceAddress are the CIDR ranges that connections must come from. The ranges of a group
	// replace them. Empty allows any address.
	SourceAddress []string `json:"source_address"`
	// Principals is "group" (default) for <login>@<group>, or "login" for the login alone, on
	// hosts without AuthorizedPrincipals. "login" requires exactly one group.
	Principals string `json:"principals"`
	// MaxTTL is the maximum lifetime of a certificate: 1m to 24h, default 1h.
	MaxTTL string     `json:"max_ttl"`
	CA     CAOptions  `json:"ca"`
	KRL    KRLOptions `json:"krl"`
	Kill   *Kill      `json:"kill"`
}

// Group is one group of hosts.
type Group struct {
	Logins        []string `json:"logins"` // required: accounts on the hosts
	SourceAddress []string `json:"source_address"`
	// Hosts are the names by which sandboxes reach the group's hosts through egress, with
	// :port for ports other than 22; a pattern has none. HostKeys are the keys of these hosts:
	// lines of their .pub files, with the prefix "@cert-authority " for the key of a CA.
	Hosts    []string `json:"hosts"`
	HostKeys []string `json:"host_keys"`
}

// CAOptions configures the CA's key. By default ebb makes one in a directory beside its own
// signing keys.
type CAOptions struct {
	KeyFile string   `json:"key_file"` // OpenSSH private key, Ed25519, mode 0600; ebb does not rotate it
	Trusted []string `json:"trusted"`  // with KeyFile: further public keys that hosts must trust, one file each

	RotateEvery string `json:"rotate_every"` // without KeyFile: interval of the rotation; default: no regular rotation
	Lead        string `json:"lead"`         // time between the publication of a new key and its first use; default 24h
}

// KRLOptions defines how hosts learn of revoked certificates.
type KRLOptions struct {
	// Refresh is the interval at which every host fetches the list: 1s to 1h, whole seconds.
	// Required, because the revocation bound is this interval and the maximum age of the list.
	Refresh string `json:"refresh"`
	File    string `json:"file"` // absolute path; this ebb keeps the file up to date
	URL     string `json:"url"`  // URL from which hosts fetch the list, for the probe
}

// Kill is a command that ends open sessions. ebb runs it without a shell.
type Kill struct {
	Command []string `json:"command"` // absolute path, then arguments
	Timeout string   `json:"timeout"` // 1s to 60s, default 10s
}

// settings are Options that check has accepted.
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

// bound returns the revocation bound: the refresh interval that the operator states for the
// hosts, and the maximum age of the list when a host fetches it. That age is the reuse of one
// reading of the database, and the interval at which another replica writes the file.
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
	hosts   []stricturl.Host // none for a pattern
	keys    []hostKey
}

var (
	loginForm   = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)
	groupForm   = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	commandForm = lazyregexp.New(`^[a-z0-9][a-z0-9_.-]{0,27}$`)
)

const (
	principalsGroup = "group"
	principalsLogin = "login"

	// never is the rotation interval without regular rotation.
	never = 100 * 365 * 24 * time.Hour
	// maxCommand is the maximum length of a forced command, which is part of every
	// certificate.
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
		// Every host that trusts the CA accepts a bare login. The principal is therefore exact
		// only with a single group.
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
		case !fetch.Secure(u):
			p.add("krl.url must be https: whoever can change the list on its way can revive what is revoked")
		}
	}
}

// printable reports whether s is printable ASCII.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func isPattern(group string) bool { return strings.HasPrefix(group, "*.") }

// problems collects the problems of a configuration.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// prefixes parses CIDR ranges. sshd refuses a range with bits beyond its mask, and every
// certificate that contains such a range.
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
	port = 22 // default port of SSH (RFC 4251 section 4)
	// certAuthority marks the key of a CA in known_hosts (sshd(8)).
	certAuthority = "@cert-authority "
)

// parseHosts parses the addresses and host keys of a group.
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

// hostKey is one key of a group's hosts, or of the CA that signs their keys.
type hostKey struct {
	ca   bool
	line string // type and key
}

// has reports whether a host belongs to a group, which may be a pattern.
func (g group) has(name string, h stricturl.Host) bool {
	if _, domain, is := strings.Cut(h.Name, "."); is && name == "*."+domain {
		return h.Port == port
	}
	return slices.Contains(g.hosts, h)
}

// Reaches implements provider.Reacher. A host is allowed if it belongs to a group of the
// scopes.
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

// KnownHosts returns the keys of a host as lines of known_hosts (sshd(8)), none when none is
// configured. known is false for a host that belongs to no group.
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
