//! Web addresses, as far as they are read alike: surrounding white space is dropped, scheme and host are lower-cased.
//!
//! Path, query and fragment are kept as they are: servers may tell them apart. What is no address (no `://`) is only
//! trimmed.

/// The normal form of `url`; empty when there is nothing in it.
pub fn normalise(url: &str) -> String {
    let url = url.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let Some(scheme_end) = url.find("://") else { return url.to_owned() };
    let host_start = scheme_end + 3;
    let host_end = url[host_start..].find(['/', '?', '#']).map_or(url.len(), |at| host_start + at);
    let (head, tail) = url.split_at(host_end);
    // What stands before an "@" is a name and a password, whose case counts.
    match head[host_start..].rfind('@') {
        Some(at) => {
            let (user, host) = head.split_at(host_start + at);
            let (scheme, user) = user.split_at(host_start);
            format!("{}{user}{}{tail}", scheme.to_lowercase(), host.to_lowercase())
        }
        None => format!("{}{tail}", head.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_and_host_are_lower_cased_and_the_rest_is_kept() {
        let table = [
            (" HTTP://Example.ORG/A?B=C#D \n", "http://example.org/A?B=C#D"),
            ("https://User:Secret@Example.org", "https://User:Secret@example.org"),
            ("Example.org/A", "Example.org/A"),
            (" \t", ""),
        ];
        for (input, expected) in table {
            assert_eq!(normalise(input), expected);
            assert_eq!(normalise(expected), expected);
        }
    }
}
