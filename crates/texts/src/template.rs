//! A row of a table whose texts have placeholders.

/// A piece of a text: a literal or a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextPiece {
    Literal(String),
    /// The name, empty for `{}`.
    Placeholder {
        name: String,
        /// True if the value is also translated.
        translated: bool,
    },
}

/// An English text with placeholders and its translation.
#[derive(Clone, Debug)]
pub(super) struct TextTemplate {
    english: Vec<TextPiece>,
    chinese: Vec<TextPiece>,
}

impl TextTemplate {
    pub(super) fn new(english: &str, chinese: &str) -> Self {
        Self { english: pieces(english), chinese: pieces(chinese) }
    }

    pub(super) fn has_placeholders(&self) -> bool {
        self.english.iter().any(|piece| matches!(piece, TextPiece::Placeholder { .. }))
    }

    /// Returns the first byte of the English text; `None` if a placeholder comes first.
    pub(super) fn first_byte(&self) -> Option<u8> {
        match self.english.first() {
            Some(TextPiece::Literal(text)) => text.bytes().next(),
            Some(TextPiece::Placeholder { .. }) | None => None,
        }
    }

    /// Returns the number of literal bytes.
    pub(super) fn specificity(&self) -> usize {
        self.english.iter().map(|piece| if let TextPiece::Literal(text) = piece { text.len() } else { 0 }).sum()
    }

    /// Returns the Chinese text if the whole `text` matches. `again` translates the value of a placeholder. O(bytes of the text) for each
    /// literal.
    pub(super) fn translate(
        &self,
        text: &str,
        again: impl Fn(&str) -> Option<std::borrow::Cow<'static, str>>,
    ) -> Option<String> {
        let values = self.values(text)?;
        let names: Vec<&str> = self.english.iter().filter_map(TextPiece::name).collect();
        let mut unnamed = names.iter().zip(&values).filter(|(name, _)| name.is_empty());
        let mut translated_text = String::with_capacity(text.len() * 2);
        for piece in &self.chinese {
            let (name, translated) = match piece {
                TextPiece::Literal(literal) => {
                    translated_text.push_str(literal);
                    continue;
                }
                TextPiece::Placeholder { name, translated } => (name, *translated),
            };
            let value = match name.as_str() {
                "" => unnamed.next()?.1,
                name => values[names.iter().position(|other| *other == name)?],
            };
            match translated.then(|| again(value)).flatten() {
                Some(value) => translated_text.push_str(&value),
                None => translated_text.push_str(value),
            }
        }
        Some(translated_text)
    }

    /// Returns the value of each placeholder of the English text. Each literal is found at its first place in the text, and the last
    /// literal at the end of the text.
    fn values<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let mut values = Vec::new();
        let mut rest = text;
        let mut pieces = self.english.iter().enumerate().peekable();
        while let Some((_, piece)) = pieces.next() {
            match piece {
                TextPiece::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                TextPiece::Placeholder { .. } => {
                    let end = match pieces.peek() {
                        None => rest.len(),
                        Some((next, TextPiece::Literal(literal))) if next + 1 == self.english.len() => {
                            rest.len().checked_sub(literal.len()).filter(|_| rest.ends_with(literal.as_str()))?
                        }
                        Some((_, TextPiece::Literal(literal))) => rest.find(literal.as_str())?,
                        // Two placeholders without a text between them: the first placeholder is empty or one character.
                        Some((_, TextPiece::Placeholder { .. })) => 0,
                    };
                    values.push(&rest[..end]);
                    rest = &rest[end..];
                }
            }
        }
        rest.is_empty().then_some(values)
    }
}

impl TextPiece {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Placeholder { name, .. } => Some(name),
        }
    }
}

/// Returns the names of the placeholders, sorted.
#[cfg(test)]
pub(super) fn placeholders(text: &str) -> Vec<String> {
    let mut names: Vec<String> = pieces(text).iter().filter_map(TextPiece::name).map(str::to_owned).collect();
    names.sort();
    names
}

/// Returns the longest literal part.
#[cfg(any(test, feature = "testkit"))]
pub(super) fn longest_literal(text: &str) -> String {
    let literals = pieces(text).into_iter().filter_map(|piece| match piece {
        TextPiece::Literal(literal) => Some(literal),
        TextPiece::Placeholder { .. } => None,
    });
    literals.max_by_key(String::len).unwrap_or_default()
}

/// Splits a text at its placeholders, which are written as for `format!`. Braces around anything else are a part of the text.
fn pieces(text: &str) -> Vec<TextPiece> {
    let mut found = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push_str(&rest[..1]);
            rest = &rest[2..];
        } else if let Some((placeholder, end)) = placeholder(rest) {
            if !literal.is_empty() {
                found.push(TextPiece::Literal(std::mem::take(&mut literal)));
            }
            found.push(placeholder);
            rest = &rest[end..];
        } else {
            literal.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        found.push(TextPiece::Literal(literal));
    }
    found
}

/// Parses the placeholder at the beginning of `text`. Also returns its length.
fn placeholder(text: &str) -> Option<(TextPiece, usize)> {
    let end = text.find('}')?;
    let inside = text.get(1..end)?;
    let name = inside.split(':').next().unwrap_or_default();
    let translated = name.ends_with('!');
    let name = name.trim_end_matches('!');
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| (TextPiece::Placeholder { name: name.to_owned(), translated }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(english: &str, chinese: &str, text: &str) -> Option<String> {
        TextTemplate::new(english, chinese).translate(text, |part| (part == "it failed").then_some("失败".into()))
    }

    #[test]
    fn a_text_is_found_by_its_literal_parts_and_only_as_a_whole() {
        let table = [
            ("give {least} to {most}", "给出 {least} 至 {most}", "give 1 to 9", Some("给出 1 至 9")),
            ("give {least} to {most}", "给出 {least} 至 {most}", "give 1 to 9, please", Some("给出 1 至 9, please")),
            ("{} bytes, at most {}", "{} 字节，最多 {}", "5 bytes, at most 3", Some("5 字节，最多 3")),
            ("{} bytes; stop", "{} 字节；停", "5 bytes; stop it", None),
            ("{0} is {1}; see {0}", "见 {0}：{1}", "a is b; see a", Some("见 a：b")),
            (
                "write {{}} or {\"id\": …}",
                "写 {{}} 或 {\"id\": …}",
                "write {} or {\"id\": …}",
                Some("写 {} 或 {\"id\": …}"),
            ),
            ("no: {reason}", "不行：{reason!}", "no: it failed", Some("不行：失败")),
            ("no: {reason}", "不行：{reason!}", "no: other", Some("不行：other")),
            ("no: {reason}", "不行：{reason}", "no: it failed", Some("不行：it failed")),
            ("{name:?} is {:>3}", "{name} 为 {}", "\"x\" is 5", Some("\"x\" 为 5")),
        ];
        for (english, chinese, text, expected) in table {
            assert_eq!(translate(english, chinese, text).as_deref(), expected, "{text}");
        }
    }
}
