//! Finds out whether a query is one statement and where it ends, for databases that do not report this before they run something.
//!
//! PostgreSQL, MySQL and MariaDB prepare one statement and refuse several. The columns of a query are always read in this way before its
//! rows. SQLite runs all statements one after another.

/// The error for a query of several statements, of which only one is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeveralStatements;

/// Returns the statement in `query` without the semicolon and the comments at its end. O(length).
///
/// # Errors
/// [`SeveralStatements`] if anything except comments follows a semicolon that is outside quotes and comments.
pub(super) fn only(query: &str) -> Result<&str, SeveralStatements> {
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        if first == ';' {
            let statement = &query[..query.len() - rest.len()];
            return if is_empty(rest) { Ok(statement.trim()) } else { Err(SeveralStatements) };
        }
        rest = behind(rest).unwrap_or(&rest[first.len_utf8()..]);
    }
    Ok(query.trim())
}

/// True if the text contains only semicolons, white space and comments.
fn is_empty(mut rest: &str) -> bool {
    while let Some(first) = rest.chars().next() {
        rest = match behind(rest) {
            _ if first == ';' || first.is_whitespace() => &rest[first.len_utf8()..],
            Some(behind) if first == '-' || first == '/' => behind,
            _ => return false,
        };
    }
    true
}

/// Returns the text behind the comment or the quoted text that begins here, or `None` if neither begins here. A doubled quote ends one
/// quoted text and begins the next. A comment or quoted text without an end reaches to the end of the query.
fn behind(rest: &str) -> Option<&str> {
    let (begin, end) = match rest.as_bytes() {
        [b'-', b'-', ..] => (2, "\n"),
        [b'/', b'*', ..] => (2, "*/"),
        [b'\'', ..] => (1, "'"),
        [b'"', ..] => (1, "\""),
        [b'`', ..] => (1, "`"),
        [b'[', ..] => (1, "]"),
        _ => return None,
    };
    let within = &rest[begin..];
    Some(within.find(end).map_or("", |at| &within[at + end.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_statements_are_recognised_whatever_quotes_and_comments_contain() {
        for (query, statement) in [
            ("SELECT 1", "SELECT 1"),
            (" SELECT 1 ; ;\n-- the end; really\n/* ; */ ;", "SELECT 1"),
            ("SELECT ';', \"a;b\", `c;d`, [e;f] FROM t", "SELECT ';', \"a;b\", `c;d`, [e;f] FROM t"),
            ("SELECT 'it''s; one' -- ; and\n, 2; -- x", "SELECT 'it''s; one' -- ; and\n, 2"),
            ("SELECT 1 /* ' ; */ - -2", "SELECT 1 /* ' ; */ - -2"),
            ("SELECT '未完; ", "SELECT '未完;"),
            ("", ""),
        ] {
            assert_eq!(only(query), Ok(statement), "{query}");
        }
        for query in [
            "SELECT 1; SELECT 2",
            "SELECT 1;;DELETE FROM t",
            "SELECT 'a;'; DELETE FROM t --",
            "SELECT 1 -- '\n; DELETE FROM t -- '",
            "SELECT 1 /* ' */; DELETE FROM t /* ' */",
            "SELECT 1; 删",
            "; SELECT 1",
        ] {
            assert_eq!(only(query), Err(SeveralStatements), "{query}");
        }
    }
}
