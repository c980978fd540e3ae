//! Public and special addresses (IANA's registries of special-purpose addresses).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true for addresses of the public internet: not of this machine, a private network, a
/// link, a multicast group, or a block with another purpose. An address that embeds an IPv4 address
/// is treated like that address.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)                  // this network, private, loopback
            | (100, 64..=127, _)              // shared by carriers
            | (169, 254, _)                   // link-local, and clouds' metadata
            | (172, 16..=31, _)               // private
            | (192, 0, 0 | 2)                 // protocols, documentation
            | (192, 88, 99)                   // 6to4 relays
            | (192, 168, _)                   // private
            | (198, 18 | 19, _)               // benchmarks
            | (198, 51, 100)                  // documentation
            | (203, 0, 113)                   // documentation
            | (224.., _, _) // groups, reserved, broadcast
    )
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        // NAT64 and 6to4 lead to an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => carried(high, low),
        // A mapped address connects to the IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] => carried(high, low),
        // Protocols, Teredo, benchmarks, ORCHID (2001::/23); documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // 2000::/3 is the only block in public use. The rest is local, multicast or of another
        // purpose.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
