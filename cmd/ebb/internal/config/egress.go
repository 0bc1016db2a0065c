package config

import (
	"fmt"
	"net/netip"
	"strings"

	"ebb/broker/exact"
)

// Egress says how sandboxes get out.
type Egress struct {
	Enabled      bool
	Dir          string // "" = data_dir/boxes
	Identity     string // kernel or socket
	PrivateHosts []string
	CAFile       string

	UntrustedHosts      []string
	RequestMiB, TaskMiB int
}

// boxSocket is how long the path of a box's socket is below its directory, in bytes.
const boxSocket = len("/0123456789abcdef/out")

// FitsSocket reports whether sockets of boxes can be in a directory.
func FitsSocket(dir string) bool { return len(dir)+boxSocket <= MaxSocketPath }

// Private is PrivateHosts by host; Load has checked them.
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
	if err := exact.CheckName(host); err != nil {
		return "", netip.Prefix{}, fmt.Errorf("%q: %w", text, err)
	}
	prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
	return host, prefix, err
}

func (c *Config) checkEgress(src map[string]string, ps *Problems) {
	for _, text := range c.Egress.PrivateHosts {
		if _, _, err := privateHost(text); err != nil {
			ps.add("egress.private_hosts", src["egress.private_hosts"], err.Error(), "write a lower-case name and where it is, such as git.example.internal=10.1.2.0/24")
		}
	}
	for _, host := range c.Egress.UntrustedHosts {
		if err := exact.CheckName(host); err != nil {
			ps.add("egress.untrusted_hosts", src["egress.untrusted_hosts"], fmt.Sprintf("%q: %s", host, err), "write lower-case names such as forum.example.com")
		}
	}
	if c.Egress.Dir != "" && !FitsSocket(c.Egress.Dir) {
		ps.add("egress.dir", src["egress.dir"], "the paths of sockets in it would be longer than they may be", fmt.Sprintf("choose a directory of at most %d bytes", MaxSocketPath-boxSocket))
	}
	if c.Egress.CAFile != "" {
		if _, err := readBounded(c.Egress.CAFile, 1<<20); err != nil {
			ps.add("egress.ca_file", src["egress.ca_file"], c.Egress.CAFile+": "+reason(err), "name a readable PEM file")
		}
	}
	if c.Egress.Enabled {
		return
	}
	for _, key := range []string{"egress.dir", "egress.identity", "egress.private_hosts", "egress.untrusted_hosts", "egress.request_mib", "egress.task_mib", "egress.ca_file"} {
		if src[key] != "" {
			ps.add(key, src[key], "it has no effect: egress.enabled is false", "remove one of the two")
		}
	}
}
