//! The static files of the pages, compiled into the program. The name of a file contains the hash of its content, so a browser can keep the
//! file for ever, and changed content gets another name.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::ASSETS;
use doppel_config::auth::encode;

/// Bytes of the hash in a name. 64 bits are enough to tell all contents apart.
const HASH_BYTES: usize = 8;

/// A static file.
#[derive(Debug)]
pub struct StaticAsset {
    /// The path of its URL.
    pub path: String,
    media: &'static str,
    content: &'static [u8],
}

impl StaticAsset {
    fn new(name: &str, extension: &str, media: &'static str, content: &'static [u8]) -> Self {
        let hash = encode(&Sha256::digest(content)[..HASH_BYTES]);
        Self { path: format!("{ASSETS}{name}.{hash}.{extension}"), media, content }
    }

    /// Returns the file in a response that browsers may cache for a year.
    pub fn response(&self) -> Response {
        let headers: [(HeaderName, HeaderValue); 2] = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.media)),
            (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        ];
        (headers, self.content).into_response()
    }
}

static ALL: LazyLock<[StaticAsset; 4]> = LazyLock::new(|| {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    [
        StaticAsset::new("console", "css", "text/css; charset=utf-8", include_bytes!("assets/console.css")),
        StaticAsset::new("htmx", "js", SCRIPT, include_bytes!("assets/htmx.min.js")),
        StaticAsset::new("console", "js", SCRIPT, include_bytes!("assets/console.js")),
        StaticAsset::new("icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
    ]
});

/// Returns all static files.
pub fn all() -> &'static [StaticAsset] {
    &*ALL
}

/// Returns the path of the stylesheet.
pub fn stylesheet() -> &'static str {
    &ALL[0].path
}

/// Returns the paths of the scripts, in the order in which pages load them.
pub fn scripts() -> [&'static str; 2] {
    [&ALL[1].path, &ALL[2].path]
}

/// Returns the path of the icon.
pub fn icon() -> &'static str {
    &ALL[3].path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_file_of_others_is_the_one_that_was_read() {
        let noted = include_str!("assets/README.md");
        let hash = encode(&Sha256::digest(include_bytes!("assets/htmx.min.js")));
        assert!(noted.contains(&hash), "{hash}");
    }

    #[test]
    fn a_name_says_what_is_in_the_file() {
        assert!(all().iter().all(|asset| asset.path.starts_with(ASSETS)));
        let other = StaticAsset::new("console", "css", "text/css", b"body{}");
        assert_ne!(other.path, stylesheet());
        assert_eq!(other.path, StaticAsset::new("console", "css", "text/css", b"body{}").path);
    }
}
