package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// Egress configures the egress proxy of sandboxes.
type Egress struct {
	Enabled      bool
	Dir          string // "" = data_dir/egress
	Identity     string // kernel or socket
	Remote       bool
	PrivateHosts []string
	CAFile       string

	TranscriptRules []egress.TranscriptRule
	TranscriptsMiB  int
	TranscriptsKeep time.Duration

	UntrustedHosts      []string
	RequestMiB, TaskMiB int
}

// endpointSocket is the length in bytes of a socket's path below the directory of
// sockets.
const endpointSocket = len("/0123456789abcdef/out")

// FitsSocket reports whether the paths of egress sockets in dir are short
// enough.
func FitsSocket(dir string) bool { return len(dir)+endpointSocket <= MaxSocketPath }

// Private returns PrivateHosts by host. Load has checked them.
func (e Egress) Private() map[string][]netip.Prefix {
	out := map[string][]netip.Prefix{}
	for _, text := range e.PrivateHosts {
		if host, prefix, err := privateHost(text); err == nil {
			out[host] = append(out[host], prefix)
		}
	}
	return out
}

func privateHost(text string) (string, netip.Prefix, error) {
	host, cidr, two := strings.Cut(text, "=")
	if !two {
		return "", netip.Prefix{}, fmt.Errorf("%q is not host=CIDR", text)
	}
	host = strings.TrimSpace(host)
	if err := stricturl.CheckName(host); err != nil {
		return "", netip.Prefix{}, fmt.Errorf("%q: %w", text, err)
	}
	prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
	return host, prefix, err
}

func (c *Config) checkEgress(src map[string]string, ps *Problems) {
	for _, text := range c.Egress.PrivateHosts {
		if _, _, err := privateHost(text); err != nil {
			ps.add("egress.private_hosts", src["egress.private_hosts"], err.Error(), "write a lower-case name and its network, such as git.example.internal=10.1.2.0/24")
		}
	}
	for _, host := range c.Egress.UntrustedHosts {
		if err := stricturl.CheckName(host); err != nil {
			ps.add("egress.untrusted_hosts", src["egress.untrusted_hosts"], fmt.Sprintf("%q: %s", host, err), "write lower-case names such as forum.example.com")
		}
	}
	if c.Egress.Dir != "" && !FitsSocket(c.Egress.Dir) {
		ps.add("egress.dir", src["egress.dir"], "socket paths in it would be too long", fmt.Sprintf("choose a directory of at most %d bytes", MaxSocketPath-endpointSocket))
	}
	if c.Egress.CAFile != "" {
		if _, err := readBounded(c.Egress.CAFile, 1<<20); err != nil {
			ps.add("egress.ca_file", src["egress.ca_file"], c.Egress.CAFile+": "+reason(err), "name a readable PEM file")
		}
	}
	c.checkTranscripts(src, ps)
	if c.Egress.Enabled {
		return
	}
	for _, key := range []string{"egress.dir", "egress.identity", "egress.remote", "egress.private_hosts", "egress.untrusted_hosts", "egress.request_mib", "egress.task_mib", "egress.ca_file", "egress.transcripts.rules"} {
		if src[key] != "" {
			ps.add(key, src[key], "it has no effect: egress.enabled is false", "remove the key, or set egress.enabled to true")
		}
	}
}

func (c *Config) readTranscriptRules(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Egress.TranscriptRules = nil
		r.each(path, n, func(at string, item ast.Node) {
			o := egress.TranscriptRule{}
			full := "deny"
			r.mapping(at, item, []field{
				{"name", &o.Name}, {"hosts", &o.Hosts}, {"providers", &o.Providers}, {"methods", &o.Methods}, {"paths", &o.Paths}, {"query", &o.Query}, {"headers", &o.Headers},
				{"request_bytes", &o.RequestBytes}, {"answer_bytes", &o.AnswerBytes}, {"when_full", choice{&full, []string{"deny", "skip"}}},
			})
			o.SkipWhenFull = full == "skip"
			c.Egress.TranscriptRules = append(c.Egress.TranscriptRules, o)
		})
	}
}

// checkTranscripts checks each rule, its name, and its providers.
func (c *Config) checkTranscripts(src map[string]string, ps *Problems) {
	const key = "egress.transcripts.rules"
	seen := map[string]bool{}
	for i, r := range c.Egress.TranscriptRules {
		at := fmt.Sprintf("%s[%d]", key, i)
		r.Check(at, func(format string, a ...any) {
			where, wrong, _ := strings.Cut(fmt.Sprintf(format, a...), ": ")
			ps.add(where, src[at], wrong, "see docs/reference/egress.md, Transcripts")
		})
		if share := int64(c.Egress.TranscriptsMiB) << 20 / transcript.TaskShare; r.Room() > share {
			ps.add(at, src[at], fmt.Sprintf("one transcript takes up to %d KiB, and one task may use %d KiB", r.Room()>>10, share>>10), "lower request_bytes and answer_bytes, or raise egress.transcripts.mib")
		}
		if r.Name != "" && seen[r.Name] {
			ps.add(at, src[at], fmt.Sprintf("%q is used twice", r.Name), "give each rule its own name")
		}
		seen[r.Name] = true
		for _, name := range r.Providers {
			if !slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name }) {
				ps.add(at, src[at], fmt.Sprintf("no provider is named %q", name), "name one of providers")
			}
		}
	}
	if len(c.Egress.TranscriptRules) > egress.MaxTranscriptRules {
		ps.add(key, src[key], fmt.Sprintf("there are more than %d", egress.MaxTranscriptRules), "merge some of them")
	}
	if c.Egress.TranscriptsMiB < 1 {
		ps.add("egress.transcripts.mib", src["egress.transcripts.mib"], "it is less than 1", "write 1 or more")
	}
	if c.Egress.TranscriptsKeep < time.Minute {
		ps.add("egress.transcripts.keep", src["egress.transcripts.keep"], "it is shorter than 1m", "write 1m or more, such as 168h")
	}
}
