//! Machine: quotes texts for printed shell commands.

use std::path::Path;

/// Returns a text as one shell word, in single quotes if necessary.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./:=@%+,".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

pub(crate) fn path_word(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_its_text() {
        for (text, word) in [
            ("a/b-c_1.yaml", "a/b-c_1.yaml"),
            ("my folder", "'my folder'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a;rm $HOME", "'a;rm $HOME'"),
            ("ä", "ä"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
