package relay

import (
	"net/netip"
	"slices"
)

// public reports whether an address is on the public internet, so that it cannot be a host of the operator's own
// network.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reserved are addresses that have the form of global unicast addresses but are not on the internet, from IANA's
// special-purpose registries, https://www.iana.org/assignments/iana-ipv4-special-registry and
// iana-ipv6-special-registry. NAT64 and 6to4 addresses contain an IPv4 address that may be private.
var reserved = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
