//! Describes the allowed values to the client, from the error of serde for a value.

/// Rewrites an error text of serde. It names JSON types instead of Rust types, and does not repeat text of the client.
pub(super) fn expected(reason: &str) -> String {
    let reason = reason.split(" at line ").next().unwrap_or_default();
    // Such a text was written by this service for a value with rules. It contains no text of the client.
    if reason.starts_with('`') {
        return reason.replace('`', "\"");
    }
    if reason.contains("untagged enum StopWords") {
        return "give \"default\" or a list of words".into();
    }
    if let Some(name) = reason.strip_prefix("missing field ") {
        return format!("the key {} is missing; give it", name.replace('`', "\""));
    }
    let Some((given, wanted)) = reason.rsplit_once("expected ") else {
        return "the value is not allowed; /openapi.yaml lists the allowed values".into();
    };
    let wanted = wanted.replace('`', "\"");
    match given {
        given if given.starts_with("unknown variant") => format!("give {}", list(&wanted)),
        given if given.starts_with("unknown field") => format!("there is no such key here; there is {}", list(&wanted)),
        _ => format!("give {}", in_words(&wanted)),
    }
}

/// Returns the allowed names, separated by commas. A list without words is the same in all languages.
fn list(wanted: &str) -> String {
    wanted.trim_start_matches("one of ").replace("\" or \"", "\", \"")
}

/// Describes the JSON form of a type.
fn in_words(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "an array of length 2" => "a list of two numbers",
        "a string" | "string" | "string or map" | "variant identifier" => "a string",
        wanted if wanted.starts_with("struct ") || wanted.contains("map") || wanted.contains("enum ") => "an object",
        wanted => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_serde_become_descriptions_of_the_allowed_values() {
        let table = [
            ("unknown variant `txt`, expected one of `text`, `whole`", "give \"text\", \"whole\""),
            (
                "unknown field `segmentr`, expected `segmenter` or `hmm`",
                "there is no such key here; there is \"segmenter\", \"hmm\"",
            ),
            ("invalid type: string \"expected x\", expected u8", "give a whole number from 0 to 255"),
            ("invalid value: integer `-1`, expected u16 at line 1 column 2", "give a whole number from 0 to 65535"),
            ("invalid type: map, expected a boolean", "give true or false"),
            ("invalid type: integer `1`, expected struct Verify", "give an object"),
            ("invalid length 3, expected an array of length 2", "give a list of two numbers"),
            ("`split` is \"clause\" or \"lines:n\"", "\"split\" is \"clause\" or \"lines:n\""),
            ("missing field `name`", "the key \"name\" is missing; give it"),
            ("data did not match any variant of untagged enum StopWords", "give \"default\" or a list of words"),
        ];
        for (reason, wanted) in table {
            assert_eq!(expected(reason), wanted, "{reason}");
        }
    }
}
