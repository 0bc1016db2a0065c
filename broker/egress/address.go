package egress

import (
	"net/netip"
	"slices"
	"strings"

	"ebb/attest/fetch"
)

// class is what kind of place an address is.
type class int

// Classes. What is not known to be public is not dialled.
const (
	special  class = iota // of no host that anybody has to reach: never dialled
	metadata              // of a cloud's own services, which hand out credentials: never dialled
	private               // of a network that is nobody else's: dialled for a host that is configured so
	public
)

// clouds are addresses at which machines get credentials. All that is link-local is
// taken for one: nothing else that speaks HTTP lives there.
var clouds = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), // AWS, Azure, Google, Oracle, Tencent, Scaleway
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"),       // AWS by IPv6
	netip.MustParsePrefix("fd20:ce::/32"),        // Google by IPv6
	netip.MustParsePrefix("100.100.100.200/32"),  // Alibaba
	netip.MustParsePrefix("192.0.0.192/32"),      // Oracle, the old one
	netip.MustParsePrefix("168.63.129.16/32"),    // Azure: the machine's own host
	netip.MustParsePrefix("fd00:42::42/128"),     // Scaleway by IPv6
	netip.MustParsePrefix("fd00:a9fe:a9fe::/48"), // 169.254.169.254, as some spell it
}

var privates = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"),
}

// classOf looks at an address as it is dialled: IPv4 in IPv6 is IPv4, and every other
// form in which an IPv4 address hides (NAT64, 6to4, Teredo, ISATAP) is special, whatever
// hides in it.
func classOf(a netip.Addr) class {
	in := func(all []netip.Prefix) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	zone := a.Zone() != ""
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || zone:
		return special
	case in(clouds):
		return metadata
	case in(privates):
		return private
	case fetch.Public(a):
		return public
	}
	return special
}

// cloudNames are names of those addresses. They are refused before anybody is asked
// where they lead.
var cloudNames = []string{"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.azure.internal", "metadata.tencentyun.com", "metadata.oraclecloud.com"}

func cloudName(name string) bool {
	return slices.ContainsFunc(cloudNames, func(c string) bool { return name == c || strings.HasSuffix(name, "."+c) })
}
