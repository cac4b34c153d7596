//! Machine: reads and writes YAML as Go does, as JSON values.

mod plain;
mod emit;
mod problems;
mod tree;
mod go_value;
mod scalar;
mod decode;

use std::borrow::Cow;

use serde_json::Value;

use tree::{Documents, Tree};

use crate::json::{self, duplicates};

/// A document of a YAML file.
#[derive(Debug)]
pub struct Document {
    /// The content of the document, as JSON.
    pub value: Value,
    /// The number of the line at which the document begins, from one.
    pub line: usize,
}

/// Reads all documents of a YAML file, without empty documents.
///
/// # Errors
/// Fails with the position of the invalid YAML or of the duplicate key.
pub fn documents(text: &str) -> Result<Vec<Document>, String> {
    with_repairs(text, all_documents)
}

/// Reads a text with `read`, and reads it again after each repair that the parser needs.
fn with_repairs<T>(
    text: &str,
    read: impl Fn(&mut Documents<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let mut text = Cow::Borrowed(text);
    let mut bytes = 0;
    loop {
        let mut documents = Documents::new(&text);
        let found = read(&mut documents);
        bytes += text.len();
        let repair = documents.repair.filter(|_| bytes < MAX_READ);
        match repair.and_then(|repair| problems::repaired(&text, repair)) {
            Some(repaired) => text = Cow::Owned(repaired),
            None => return found,
        }
    }
}

fn all_documents(documents: &mut Documents<'_>) -> Result<Vec<Document>, String> {
    let mut all = Vec::new();
    while let Some(tree) = documents.next()? {
        if let Some(duplicate) = decode::duplicates(&tree).into_iter().next() {
            return Err(duplicate);
        }
        let value = decode::value(&tree)?;
        if !value.is_null() {
            let line = tree.node(0).line;
            all.push(Document { value, line });
        }
    }
    Ok(all)
}

/// Reads the first document, as `YAMLToJSON` of `sigs.k8s.io/yaml` does. The last value of a duplicate key counts.
///
/// # Errors
/// Fails with the message of kube-apiserver, which has the position of the error.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    // Client libraries send JSON, which is YAML except for some escapes, and the JSON parser is faster.
    if is_plain_json(body)
        && let Ok(mut value) = serde_json::from_slice(body)
    {
        json::write_whole(&mut value);
        return Ok(value);
    }
    match first(body).map_err(|why| format!("yaml: {why}"))? {
        Some(tree) => decode::value(&tree),
        None => Ok(Value::Null),
    }
}

/// Reads the first document as [`parse`] does, and also returns the messages of [`twice`].
///
/// # Errors
/// Fails as [`parse`] does.
pub fn parse_and_warn(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    // JSON, which client libraries send, needs only one reading.
    if is_plain_json(body)
        && let Some(mut value) = duplicates::parse_distinct(body)
    {
        json::write_whole(&mut value);
        return Ok((value, Vec::new()));
    }
    Ok((parse(body)?, twice(body)))
}

/// Returns whether a body begins as JSON does, and has no escape that YAML does not know.
fn is_plain_json(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{")
        && !body.windows(2).any(|pair| pair == b"\\/" || pair == b"\\u")
}

/// Returns a message with the line and the name of each duplicate key in the first document, if it can be read.
pub fn twice(body: &[u8]) -> Vec<String> {
    if body.trim_ascii_start().starts_with(b"{") && duplicates::parse_distinct(body).is_some() {
        return Vec::new();
    }
    let tree = first(body).ok().flatten();
    tree.map_or_else(Vec::new, |tree| decode::duplicates(&tree))
}

fn first(body: &[u8]) -> Result<Option<Tree>, String> {
    with_repairs(problems::readable(body)?, |documents| documents.next())
}

/// Maximum number of bytes that are read again after repairs (SRV-3).
const MAX_READ: usize = 16 << 20;

/// Writes a JSON value as YAML, byte for byte as kube-apiserver writes it.
pub fn write(value: &Value) -> String {
    emit::document(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::problems::DEEPEST;
    use super::*;

    #[test]
    fn bodies_are_read_as_go_reads_them() {
        let recorded = include_str!("yaml/recorded.txt").lines();
        let cases: Vec<_> = recorded.filter(|line| !line.starts_with('#')).collect();
        assert!(cases.len() > 500, "{}", cases.len());
        for case in cases {
            let (body, answer) = case.split_once('\t').unwrap();
            let (outcome, answer) = answer.split_once(' ').unwrap();
            let body: String = serde_json::from_str(body).unwrap();
            let answer: Value = serde_json::from_str(answer).unwrap();
            let read = parse(body.as_bytes()).map_err(Value::from);
            let expected = match outcome {
                "value" => Ok(answer),
                _ => Err(answer),
            };
            assert_eq!(read, expected, "{body:?}");
        }
    }

    #[test]
    fn words_and_numbers_read_as_go_reads_them() {
        let text =
            b"a: yes\nb: 017\nc: \"1\"\nd: ~\ne: 1e3\nf: 2026-01-01\ng: [1, x]\nh: 1\nh: 2\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": true, "b": 15, "c": "1", "d": null, "e": 1000, "f": "2026-01-01",
                "g": [1, "x"], "h": 2})
        );
        assert_eq!(
            parse(b"a: &x {b: 1}\nc: *x\n").unwrap(),
            json!({"a": {"b": 1}, "c": {"b": 1}})
        );
        assert_eq!(parse(b"").unwrap(), Value::Null);
    }

    #[test]
    fn duplicate_keys_of_json_and_yaml_are_found() {
        for text in ["{\"a\": 1, \"a\": 2}", "a: 1\na: 2\n", "{a: 1, a: 2}"] {
            let [found] = twice(text.as_bytes()).try_into().unwrap();
            assert!(found.ends_with("key \"a\" already set in map"), "{found}");
        }
        for text in [
            "{\"a\": {\"b\": [1]}, \"b\": 2}",
            "a: 1\nb: 2\n",
            "{\"a\": ",
        ] {
            assert!(twice(text.as_bytes()).is_empty());
        }
    }

    #[test]
    fn keys_read_as_go_reads_them() {
        let text = "on: 1\ny: 2\n'n': 3\nNo: 4\n017: 5\n-2: 6\n1.50: 7\nx: {1: {off: 9}}\n";
        let want = json!({"true": 2, "n": 3, "false": 4, "15": 5, "-2": 6, "1.5": 7,
            "x": {"1": {"false": 9}}});
        assert_eq!(parse(text.as_bytes()).unwrap(), want);
        let problem = documents(text).unwrap_err();
        assert_eq!(problem, "line 2: key true already set in map");
        for none in ["null: 1\n", "? [a]\n: 1\n", "? {a: b}\n: 1\n", "a: .nan\n"] {
            assert!(parse(none.as_bytes()).is_err(), "{none}");
        }
    }

    #[test]
    fn the_first_of_several_documents_is_read() {
        let documents = b"---\na: 1\n---\nb: 2\n---\n: [";
        assert_eq!(parse(documents).unwrap(), json!({"a": 1}));
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_line() {
        let found = twice(b"a:\n  b: 1\n  b: 2\n1: x\n1:\n- y\n");
        let expected = [
            "line 3: key \"b\" already set in map",
            "line 6: key 1 already set in map",
        ];
        assert_eq!(found, expected);
        for text in [&b"a: 1\nb: 2\n"[..], b"a: ["] {
            assert!(twice(text).is_empty());
        }
    }

    #[test]
    fn problems_name_their_line_beyond_the_first() {
        let problem = "yaml: mapping values are not allowed in this context";
        assert_eq!(parse(b"a: b: c").unwrap_err(), problem);
        assert_eq!(
            parse(b"x: 1\na: b: c").unwrap_err(),
            "yaml: line 2: mapping values are not allowed in this context"
        );
        for (text, problem) in [
            ("a: [1\n", "line 1: did not find expected ',' or ']'"),
            ("a: \"x\n", "line 2: found unexpected end of stream"),
            (
                "a:\n\tb: 1\n",
                "line 2: found character that cannot start any token",
            ),
            ("a: @b\n", "found character that cannot start any token"),
            ("- a\nb: 1\n", "line 1: did not find expected '-' indicator"),
            ("a:\n  - b\n c: d\n", "line 2: did not find expected key"),
        ] {
            assert_eq!(
                parse(text.as_bytes()).unwrap_err(),
                format!("yaml: {problem}")
            );
        }
        assert!(parse(b"\xff\xfe\x00").is_err());
    }

    #[test]
    fn written_yaml_parses_back() {
        let long = "word ".repeat(60);
        let value = json!({"a": "yes", "b": "1", "c": [1, {"x": null, "y": []}], "d": {},
            "e": "line\nline\n", "f": "2026-01-01T00:00:00Z", "g": 1.5, "h": "a: b", "i": long.trim_end()});
        let text = write(&value);
        assert_eq!(parse(text.as_bytes()).unwrap(), value);
        assert!(text.contains("a: \"yes\"\n"), "{text}");
    }

    #[test]
    fn all_documents_of_a_file_are_read_with_their_positions() {
        let found = documents("# One.\na: yes\n---\n\n---\nb: 0400\n").unwrap();
        let places: Vec<_> = found.iter().map(|one| (one.line, &one.value)).collect();
        assert_eq!(places, [(2, &json!({"a": true})), (6, &json!({"b": 256}))]);
        let problem = documents("a: 1\n---\nb: 1\nb: 2\n").unwrap_err();
        assert!(problem.contains("line 4"), "{problem}");
    }

    #[test]
    fn long_yaml_and_deep_json_are_read() {
        let wide = format!("[{}1]", "1,".repeat(250_000));
        let wide = parse(wide.as_bytes()).unwrap();
        assert_eq!(wide.as_array().unwrap().len(), 250_001);
        let many = "a: 1\n---\n".repeat(1_100);
        assert_eq!(documents(&many).unwrap().len(), 1_100);
        let deep = format!("{}1{}", "{\"a\":".repeat(120), "}".repeat(120));
        let expected: Value = serde_json::from_str(&deep).unwrap();
        assert_eq!(parse(deep.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn excessive_nesting_and_aliases_are_refused() {
        let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
        let blocks = |depth| -> String {
            let level = |level| format!("{}a:\n", " ".repeat(level));
            (0..depth).map(level).collect()
        };
        let refused = "exceeded max depth of 127";
        for (fine, deep) in [
            (nested(DEEPEST), nested(DEEPEST + 1)),
            (blocks(DEEPEST), blocks(DEEPEST + 1)),
        ] {
            // The stack of the thread is half as large as that of a thread of the runtime.
            let read = std::thread::Builder::new().stack_size(1 << 20);
            let read = read
                .spawn(move || parse(fine.as_bytes()).map(drop))
                .unwrap();
            assert_eq!(read.join().unwrap(), Ok(()));
            let why = parse(deep.as_bytes()).unwrap_err();
            assert!(why.ends_with(refused), "{why}");
            let why = documents(&deep).unwrap_err();
            assert!(why.ends_with(refused), "{why}");
        }
        let why = parse("[".repeat(100_000).as_bytes()).unwrap_err();
        assert!(why.ends_with(refused), "{why}");
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let below = format!("*a{},", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert!(parse(bomb.as_bytes()).is_err());
    }

    proptest! {
        /// SRV-3: the reader does not panic for any text, and the writer can write everything that it reads.
        #[test]
        fn any_text_is_read_or_refused(
            text in "([a-z0-9~.+]|[ \\n\\t:,\\[\\]{}?&*!|>'\"%@#<=\\\\/_-]|- |: |\\n  |---\\n|<<: ){0,40}"
        ) {
            let _ = (documents(&text), twice(text.as_bytes()));
            if let Ok(value) = parse(text.as_bytes()) {
                let object = json!({"a": value});
                prop_assert_eq!(parse(write(&object).as_bytes()), Ok(object));
            }
        }
    }
}
