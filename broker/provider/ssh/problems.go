package ssh

import (
	"fmt"
	"net/netip"
	"time"
)

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
