//! Decides which addresses are in the public internet and which are private. Addresses that lead to other networks are neither public nor
//! private.

use std::net::{IpAddr, Ipv4Addr};

use url::Url;

/// True if the host of a URL is an address outside the public internet. Returns false for a name, because its address is not known before
/// the name is resolved.
pub fn is_private_literal(url: &Url) -> bool {
    literal(url).is_some_and(|address| !is_public(address))
}

/// True if the host of a URL is an address that is neither loopback nor private. Returns false for a name, because its address is not known
/// before the name is resolved.
pub fn is_remote_literal(url: &Url) -> bool {
    literal(url).is_some_and(|address| !is_private(address))
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.parse().ok()
}

/// True for an address of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4() {
            // IPv6 addresses that represent an IPv4 address, including `::` and `::1`.
            Some(address) => is_public_v4(address) && address.octets()[0] != 0,
            None => {
                let first = address.segments()[0];
                let is_own = first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80 || first & 0xffc0 == 0xfec0;
                // 64:ff9b::/96 and 2002::/16 lead to addresses of IPv4.
                let leads_on = first == 0x0064 || first == 0x2002;
                !(is_own || leads_on || address.is_multicast())
            }
        },
    }
}

/// True for loopback and for addresses of private networks (RFC 1918, RFC 4193), and for link-local addresses of IPv6.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => address.is_loopback() || address.is_private(),
            None => {
                let first = address.segments()[0];
                address.is_loopback() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_carrier = a == 100 && (64..128).contains(&b);
    let is_test = a == 198 && (18..20).contains(&b);
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_carrier
        || is_test
        || a == 0
        || a >= 240)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2400:3200::1", "::ffff:8.8.8.8"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn only_loopback_and_own_networks_are_private() {
        for address in
            ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "::1", "::ffff:10.0.0.1", "fd12::1", "fe80::1"]
        {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "8.8.8.8",
            "0.0.0.0",
            "100.64.0.1",
            "169.254.169.254",
            "192.0.2.1",
            "224.0.0.1",
            "::",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
            "2400:3200::1",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_literal_address_is_known_to_be_private() {
        for (url, is_private) in [
            ("https://127.0.0.1:9/", true),
            ("https://[fd00::1]/", true),
            ("https://0x7f.1/", true),
            ("https://8.8.8.8/", false),
            ("https://localhost/", false),
        ] {
            assert_eq!(is_private_literal(&url.parse().unwrap()), is_private, "{url}");
        }
    }
}
