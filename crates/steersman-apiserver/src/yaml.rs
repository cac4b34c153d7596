//! Machine: YAML as Go reads and writes it, by way of JSON values.

mod plain;
mod emit;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Reads a document, of a key that is there twice the last. The error is in the words of the real
/// server: its line only beyond the first.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    read(body, DuplicateKeyPolicy::LastWins)
}

/// Reads a document, with a say in keys that are there twice.
pub(crate) fn read(body: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    // SRV-3: the parser bounds depth, aliases and events, and answers with an error.
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(body, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        let text = error.to_string();
        // The parser ends with the place.
        let problem = text.split(" at line ").next().unwrap_or_default();
        if line > 1 {
            format!("line {line}: {problem}")
        } else {
            problem.to_owned()
        }
    })
}

/// Writes a value that came from JSON, byte for byte as the real server writes it.
pub(crate) fn write(value: &Value) -> String {
    emit::document(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_numbers_read_as_go_reads_them() {
        let text =
            b"a: yes\nb: 017\nc: \"1\"\nd: ~\ne: 1e3\nf: 2026-01-01\ng: [1, x]\nh: 1\nh: 2\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": true, "b": 15, "c": "1", "d": null, "e": 1000.0, "f": "2026-01-01",
                "g": [1, "x"], "h": 2})
        );
        assert_eq!(
            parse(b"a: &x {b: 1}\nc: *x\n").unwrap(),
            json!({"a": {"b": 1}, "c": {"b": 1}})
        );
        assert_eq!(parse(b"").unwrap(), Value::Null);
    }

    #[test]
    fn problems_name_their_line_beyond_the_first() {
        let problem = "mapping values are not allowed in this context";
        assert_eq!(parse(b"a: b: c").unwrap_err(), problem);
        assert_eq!(
            parse(b"x: 1\na: b: c").unwrap_err(),
            format!("line 2: {problem}")
        );
        assert!(parse(b"{a: 1").is_err());
        assert!(parse(b"\xff\xfe\x00").is_err());
        assert!(parse(b"a: 1\n---\nb: 2\n").is_err());
    }

    #[test]
    fn what_is_written_reads_back() {
        let long = "word ".repeat(60);
        let value = json!({"a": "yes", "b": "1", "c": [1, {"x": null, "y": []}], "d": {},
            "e": "line\nline\n", "f": "2026-01-01T00:00:00Z", "g": 1.5, "h": "a: b", "i": long.trim_end()});
        let text = write(&value);
        assert_eq!(parse(text.as_bytes()).unwrap(), value);
        assert!(text.contains("a: \"yes\"\n"), "{text}");
    }

    #[test]
    fn nesting_and_aliases_without_end_are_refused() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let below = format!("*a{},", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert!(parse(bomb.as_bytes()).is_err());
    }
}
