//! Words: the file `.steersman.toml`, which records what `new` generated.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, Item, Table, value};

pub(crate) const RECORD: &str = ".steersman.toml";

const HEAD: &str = "# What `cargo steersman new` made, so that `upgrade` knows what was changed since. Commit this file.\n";

/// The record of the last `new` or `upgrade`: the version of the command, and the texts of the files that upgrades
/// change.
///
/// The record stores texts and not hashes, because an upgrade merges a file with its recorded text. It is a separate
/// file, because users write `[package.metadata.steersman]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: String,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) files: BTreeMap<String, String>,
}

impl Record {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document: DocumentMut = text.parse().map_err(|problem| first_line(&problem))?;
        let read = |key: &str| {
            let text = document.get(key).and_then(Item::as_str);
            text.map(str::to_owned)
                .ok_or_else(|| format!("it has no text {key:?}"))
        };
        let files = document.get("files").and_then(Item::as_table_like);
        let files = files.ok_or("it has no table [files]")?.iter();
        let files = files.filter_map(|(path, text)| {
            let text = text.as_str()?.to_owned();
            Some((path.to_owned(), text))
        });
        Ok(Self {
            version: read("version")?,
            group: read("group")?,
            plural: read("plural")?,
            files: files.collect(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut document = DocumentMut::new();
        document["version"] = value(&self.version);
        document["group"] = value(&self.group);
        document["plural"] = value(&self.plural);
        let mut files = Table::new();
        for (path, text) in &self.files {
            files.insert(path, value(text));
        }
        document["files"] = Item::Table(files);
        format!("{HEAD}{document}")
    }
}

/// Returns the first line of a TOML error, which has the position. Further lines quote the source.
pub(crate) fn first_line(problem: &toml_edit::TomlError) -> String {
    let problem = problem.to_string();
    problem.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let texts = [
            "", "a\n", "a\nb", "it's \"\"\"'''\n\\ \t\r\n", "{{ a }}\u{1}\n# b\n[c]\n",
        ];
        let files = texts.iter().enumerate();
        let files = files.map(|(at, text)| (format!(".github/{at} a.yml"), (*text).to_owned()));
        let record = Record {
            version: "0.1.0".to_owned(),
            group: "example.com".to_owned(),
            plural: "greetings".to_owned(),
            files: files.collect(),
        };
        assert_eq!(Record::parse(&record.text()), Ok(record));
    }

    #[test]
    fn a_text_that_is_no_record_is_described() {
        for (text, expected) in [
            ("version = ", "TOML parse error at line 1"),
            ("version = 1\n[files]\n", "no text \"version\""),
            ("version = \"1\"\n", "no table [files]"),
        ] {
            let problem = Record::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
