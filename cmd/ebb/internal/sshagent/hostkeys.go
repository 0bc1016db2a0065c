package sshagent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeys are the keys of one host: its own keys, and CAs of its certificates.
// Without either, every key is accepted for the host.
type HostKeys struct {
	host string // name and port
	keys []ssh.PublicKey
	cas  []ssh.PublicKey
}

// ParseHostKeys parses lines of a known_hosts file (sshd(8)), all of one host.
func ParseHostKeys(name string, port uint16, text []byte) (HostKeys, error) {
	h := HostKeys{host: net.JoinHostPort(name, strconv.Itoa(int(port)))}
	for len(bytes.TrimSpace(text)) > 0 {
		marker, hosts, key, _, rest, err := ssh.ParseKnownHosts(text)
		if err != nil {
			return HostKeys{}, fmt.Errorf("parse the keys of %s: %w", h.host, err)
		}
		text = rest
		if !slices.Equal(hosts, []string{knownhosts.Normalize(h.host)}) {
			return HostKeys{}, fmt.Errorf("the keys of %s name another host", h.host)
		}
		switch marker {
		case "":
			h.keys = append(h.keys, key)
		case "cert-authority":
			h.cas = append(h.cas, key)
		default:
			return HostKeys{}, fmt.Errorf("the keys of %s: the marker %q is unknown", h.host, marker)
		}
	}
	return h, nil
}

// Pinned reports whether keys of the host are known.
func (h HostKeys) Pinned() bool { return len(h.keys)+len(h.cas) > 0 }

// permits reports whether key belongs to the host.
func (h HostKeys) permits(key ssh.PublicKey, now func() time.Time) bool {
	is := func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) }
	cert, isCert := key.(*ssh.Certificate)
	if !isCert {
		return !h.Pinned() || slices.ContainsFunc(h.keys, is)
	}
	if !h.Pinned() {
		return true
	}
	check := ssh.CertChecker{
		Clock:           now,
		IsHostAuthority: func(ca ssh.PublicKey, _ string) bool { return has(h.cas, ca) },
		HostKeyFallback: func(string, net.Addr, ssh.PublicKey) error { return errors.New("no certificate") },
	}
	// x/crypto accepts a certificate without principals for every host.
	return len(cert.ValidPrincipals) > 0 && check.CheckHostKey(h.host, nil, cert) == nil
}

func has(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// pinned reports whether keys are known for all hosts.
func pinned(hosts []HostKeys) bool {
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h HostKeys) bool { return !h.Pinned() })
}

func (a *Agent) permits(hosts []HostKeys, key ssh.PublicKey) bool {
	return !pinned(hosts) || slices.ContainsFunc(hosts, func(h HostKeys) bool { return h.permits(key, a.cfg.Now) })
}
