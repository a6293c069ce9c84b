//! Web addresses in a normal form, so that the same page always has the same address.
//!
//! White space around the address is removed. Scheme and host are written in lower case. A host with an alias gets the
//! first name of its group. The default port of the scheme is removed. In the path, `.` and `..` are resolved, and
//! slashes at the end are removed. Parameters of the query that only track the visitor are removed; an empty query is
//! removed as well. All other parts of path, query and fragment are kept in their order, because servers may
//! distinguish them. A text that is no address (without `://`) is only trimmed. A second normalisation changes nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Names of parameters that track the origin of a visitor and have no effect on the page.
const TRACKING_WORDS: &str = "fbclid gclid dclid msclkid yclid igshid mc_cid mc_eid spm scm from_source share_source \
    share_medium share_from bd_vid hmsr hmpl hmcu hmkw hmci _ga _gl";

static TRACKING: LazyLock<Vec<&str>> = LazyLock::new(|| TRACKING_WORDS.split_whitespace().collect());
/// Prefixes of such parameter names.
const TRACKING_PREFIXES: &[&str] = &["utm_", "mtm_", "pk_", "ns_"];

/// Normalises addresses. It knows the host names of one web site.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The first name of its group for each other host name.
    hosts: HashMap<String, String>,
}

impl Addresses {
    /// Creates a normaliser with groups of host names. The first name of a group replaces the others.
    pub fn new(aliases: &[Vec<String>]) -> Self {
        let mut hosts = HashMap::new();
        for group in aliases {
            let Some((first, others)) = group.split_first() else { continue };
            for other in others {
                hosts.entry(other.to_lowercase()).or_insert_with(|| first.to_lowercase());
            }
        }
        Self { hosts }
    }

    /// Returns the normal form of `url`; an empty text if `url` has no content. O(length).
    pub fn normalise(&self, url: &str) -> String {
        let url = url.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
        let scheme = scheme.to_lowercase();
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (rest, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        format!("{scheme}://{}{}{}{fragment}", self.authority(authority, &scheme), resolved(path), kept(query))
    }

    /// Returns name and password unchanged, the host in lower case under the first name of its group, and the port
    /// unless it is the default of the scheme.
    fn authority(&self, authority: &str, scheme: &str) -> String {
        let (user, host) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        // Colons within brackets belong to an IPv6 address. A name has no colon.
        let colon = host.rfind(':').filter(|&at| match host.starts_with('[') {
            true => host[..at].ends_with(']'),
            false => host.find(':') == Some(at),
        });
        let (host, port) = host.split_at(colon.unwrap_or(host.len()));
        let host = host.to_lowercase();
        let host = self.hosts.get(&host).unwrap_or(&host);
        let own = matches!((scheme, port), (_, ":") | ("http", ":80") | ("https", ":443") | ("ftp", ":21"));
        format!("{user}{host}{}", if own { "" } else { port })
    }
}

/// Returns the host of an address in normal form, without user and port, and the part that identifies the page on the
/// host: port, path, query and fragment. `None` for a text that is no address with a host. O(length).
pub fn host_and_page(address: &str) -> Option<(&str, String)> {
    let (_, rest) = address.split_once("://")?;
    let (authority, page) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = &authority[authority.rfind('@').map_or(0, |at| at + 1)..];
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    let (host, port) = host.split_at(end.unwrap_or(host.len()));
    (!host.is_empty()).then(|| (host, format!("{port}{page}")))
}

/// Returns a path without `.` and `..`, and without slashes at its end (RFC 3986, 5.2.4).
fn resolved(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    while segments.last().is_some_and(|last| last.is_empty()) {
        segments.pop();
    }
    segments.iter().flat_map(|segment| ["/", segment]).collect()
}

/// Returns a query, which begins with `?`, without the parameters that only track the visitor.
fn kept(query: &str) -> String {
    let parameters = query.strip_prefix('?').unwrap_or_default().split('&');
    let kept: Vec<&str> = parameters.filter(|parameter| !parameter.is_empty() && !tracks(parameter)).collect();
    if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
}

fn tracks(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
    TRACKING.contains(&name.as_str()) || TRACKING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_page() {
        assert_eq!(parts("http://u:p@a.cn:81/x?id=1#y").as_deref(), Some("a.cn :81/x?id=1#y"));
        assert_eq!(parts("http://a.cn").as_deref(), Some("a.cn "));
        assert_eq!(parts("http://[::1]:81?q").as_deref(), Some("[::1] :81?q"));
        assert_eq!((parts("a.cn/x"), parts("file:///x")), (None, None));
    }

    fn parts(address: &str) -> Option<String> {
        host_and_page(address).map(|(host, page)| format!("{host} {page}"))
    }

    fn addresses() -> Addresses {
        Addresses::new(&[vec!["example.org".into(), "www.Example.org".into(), "m.example.org".into()]])
    }

    #[test]
    fn the_same_page_is_named_the_same_way() {
        let table = [
            (" HTTP://Example.ORG/A?B=C#D \n", "http://example.org/A?B=C#D"),
            ("https://User:Secret@Example.org", "https://User:Secret@example.org"),
            ("https://www.example.org:443/a/", "https://example.org/a"),
            ("http://M.example.org:8080/", "http://example.org:8080"),
            ("http://example.org:443", "http://example.org:443"),
            ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x"),
            ("http://[2001:DB8::1]", "http://[2001:db8::1]"),
            ("http://a.cn/x/./y/../z//", "http://a.cn/x/z"),
            ("http://a.cn/../../x", "http://a.cn/x"),
            ("http://a.cn//x", "http://a.cn//x"),
            ("http://a.cn/?utm_source=w&id=3&UTM_medium=q&spm=1.2", "http://a.cn?id=3"),
            ("http://a.cn/x?gclid=7#top", "http://a.cn/x#top"),
            ("http://a.cn/x?", "http://a.cn/x"),
            ("http://a.cn/#/case/7/", "http://a.cn#/case/7/"),
            ("Example.org/A/", "Example.org/A/"),
            (" \t", ""),
        ];
        for (input, expected) in table {
            assert_eq!(addresses().normalise(input), expected, "{input}");
        }
    }

    #[test]
    fn what_servers_tell_apart_stays_apart() {
        let pages =
            ["http://a.cn/x", "https://a.cn/x", "http://a.cn/X", "http://a.cn/x?a=1&b=2", "http://a.cn/x?b=2&a=1"];
        let normal: std::collections::HashSet<String> = pages.iter().map(|page| addresses().normalise(page)).collect();
        assert_eq!(normal.len(), pages.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn the_normal_form_is_a_fixed_point(
            url in "(http|HTTPS|ftp)?(://)?([aM]\\.)?(@|:80|:443|:|\\[::1\\]|example\\.org|www\\.example\\.org){0,3}[/.a?&=#]{0,10}(utm_a=1)?",
        ) {
            let once = addresses().normalise(&url);
            prop_assert_eq!(addresses().normalise(&once), once);
        }
    }
}
