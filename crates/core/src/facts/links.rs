//! Addresses of web pages, e-mail addresses, names of accounts and names of files. Each is recognised by a sign within
//! it.

use super::chars::{Chars, is_gap, is_ideograph};
use super::literals::literals;
use super::{FactKind, Found};

/// Top-level domains that Chinese letters use.
const DOMAINS: &[&str] = &[
    "cn", "com", "net", "org", "gov", "edu", "cc", "top", "vip", "io", "app", "link", "info", "xyz", "me", "tv", "hk",
    "tw", "mo", "site", "club", "shop", "online", "ltd", "wang", "ren", "so", "im", "co", "us", "uk", "jp", "biz",
    "pub", "mobi", "cloud", "live",
];

/// Endings of files that people attach.
const EXTENSIONS: &[&str] = &[
    "jpg", "jpeg", "png", "gif", "bmp", "webp", "heic", "tif", "tiff", "mp4", "mov", "avi", "wmv", "mkv", "mp3", "wav",
    "m4a", "amr", "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "wps", "txt", "rar", "zip", "7z", "ofd", "et",
    "csv", "html", "htm",
];

literals! {
    /// Words before a link or a file that introduce it.
    ANNOUNCEMENTS,
    "附件 附图 图片 照片 视频 录音 截图 链接 网址 网页 原文 详见 详情见 见附件 材料 文件"
}

/// Maximum length of a file name that contains ideographs, in characters.
const MAX_FILE_NAME: usize = 24;
/// Maximum length of an account name in ideographs (Weibo allows 30 half-width characters).
const MAX_ACCOUNT_IDEOGRAPHS: usize = 15;
/// Maximum length of an account name in characters.
const MAX_ACCOUNT_ASCII: usize = 30;
/// Maximum length of a link, in characters.
const MAX_LINK: usize = 2048;
/// Maximum length of a host name, in characters (RFC 1035).
const MAX_HOST: usize = 253;

fn is_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.')
}

/// Reads the address, account or file name around the sign at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    match found.text.at(at) {
        '@' => read_address(found, at).or_else(|| read_account(found, at)),
        ':' => read_scheme(found, at),
        _ => read_dotted(found, at),
    }
}

/// Reads an address with a scheme. The colon of the scheme is at `at`.
fn read_scheme(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let rest = text.starts(at, "://")?;
    let start = text.ends_any(at, &["http", "https", "ftp", "hxxp", "hxxps"])?;
    let end = link_end(text, rest);
    (end > rest).then(|| add_link(found, FactKind::Url, start, end))
}

/// Reads a host without a scheme, or the name of a file, with a dot at `at`.
fn read_dotted(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let next = text.at(at + 1);
    if !next.is_ascii_alphanumeric() {
        return None;
    }
    let start = text.skip_back(at, MAX_HOST, is_host);
    let end = text.skip(at, MAX_HOST, is_host);
    let end = text.skip_back(end, end - at, |c| matches!(c, '.' | '-'));
    let last = text.skip_back(end, end - at, |c| c != '.');
    let last = text.string(last..end);
    if start < at && DOMAINS.contains(&last.as_str()) {
        let host = text.as_slice()[start..end].iter().collect::<String>();
        let labels = host.split('.').all(|label| !label.is_empty());
        if labels && host.bytes().any(|b| b.is_ascii_alphabetic()) {
            let path =
                matches!(text.at(end), '/' | '?' | '#') || (text.at(end) == ':' && text.at(end + 1).is_ascii_digit());
            let end = if path { link_end(text, end) } else { end };
            return Some(add_link(found, FactKind::Url, start, end));
        }
    }
    if EXTENSIONS.contains(&last.as_str()) {
        let start = file_start(text, at)?;
        return Some(add_link(found, FactKind::AttachmentName, start, end));
    }
    None
}

/// Returns the start of the file name whose dot is at `at`: the start of the ASCII characters before the dot, or the
/// end of the last gap if the name contains ideographs.
fn file_start(text: &Chars, at: usize) -> Option<usize> {
    let ascii = text.skip_back(at, MAX_LINK, is_ascii_of_name);
    if ascii < at && !(is_ideograph(text.before(ascii)) && matches!(text.at(ascii), '(' | '_' | '-')) {
        return Some(ascii);
    }
    let start = text.skip_back(at, MAX_FILE_NAME + 1, |c| is_ascii_of_name(c) || !is_gap(c));
    (start < at && at - start <= MAX_FILE_NAME).then_some(start)
}

fn is_ascii_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '(' | ')' | '@')
}

/// Returns the end of a link from `at` on, without the punctuation that ends the sentence around it.
fn link_end(text: &Chars, at: usize) -> usize {
    let end = text.skip(at, MAX_LINK, |c| {
        c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"' | '`' | '{' | '}' | '|' | '\\' | '^')
    });
    text.skip_back(end, end - at, |c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | ')' | ']' | '\''))
}

/// Adds a link or a file, with the word that introduces it.
fn add_link(found: &mut Found<'_>, kind: FactKind, start: usize, end: usize) -> usize {
    let text = found.text;
    let label = text.skip_back(start, 3, |c| matches!(c, ':' | ' '));
    let announced = text.as_slice()[label..start].contains(&':').then(|| {
        let label = text.skip_back(label, 2, |c| c.is_ascii_digit());
        ANNOUNCEMENTS.before(text, label)
    });
    let canonical = text.string(start..end);
    found.add(kind, announced.flatten().unwrap_or(start)..end, canonical);
    end
}

/// Reads an e-mail address whose @ is at `at`.
fn read_address(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let start = text.skip_back(at, 64, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-' | '*'));
    let end = text.skip(at + 1, MAX_HOST, is_host);
    let end = text.skip_back(end, end - at - 1, |c| matches!(c, '.' | '-'));
    let host = text.string(at + 1..end);
    let (_, last) = host.rsplit_once('.')?;
    if start == at || last.len() < 2 || !last.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let label = text.skip_back(start, 2, |c| matches!(c, ':' | ' ' | '<'));
    let labels = ["邮箱", "电子邮箱", "电子邮件", "email", "e-mail", "邮件", "邮箱地址", "我的邮箱", "联系邮箱"];
    let label = if label < start { text.ends_any(label, &labels) } else { text.ends_any(start, &labels[..3]) };
    let canonical = text.string(start..end);
    found.add(FactKind::Email, label.unwrap_or(start)..end, canonical);
    Some(end)
}

/// Reads the name of an account whose @ is at `at`: all letters after it. A longer sequence of letters is no name,
/// because the sentence continues there.
fn read_account(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if text.before(at).is_ascii_alphanumeric() {
        return None;
    }
    let end = text.skip(at + 1, MAX_ACCOUNT_ASCII + 1, |c| c.is_alphanumeric() || matches!(c, '_' | '-' | '·'));
    let name = &text.as_slice()[at + 1..end];
    let ideographs = name.iter().filter(|&&c| is_ideograph(c)).count();
    if name.is_empty() || name.len() > MAX_ACCOUNT_ASCII || ideographs > MAX_ACCOUNT_IDEOGRAPHS {
        return None;
    }
    found.add(FactKind::Signature, at..end, text.string(at + 1..end));
    Some(end)
}
