//! Writes tables into pages of the book, each between two marks.

use std::path::Path;

use crate::files;

const END: &str = "<!-- end of figures -->\n";

/// Replaces the text between the marks of a table.
pub(crate) fn write(page: &Path, table: &str, content: &str) -> Result<(), String> {
    let name = page.display();
    let new = replace(&files::text(page)?, table, content);
    files::write(page, new.map_err(|problem| format!("{name} {problem}"))?)
}

/// Returns the text with the content of a table replaced. The caller puts the name of the page in front of the error.
pub(crate) fn replace(text: &str, table: &str, content: &str) -> Result<String, String> {
    let begin = format!("<!-- figures: {table} -->\n");
    let missing = |mark: &str| format!("has no line {}", mark.trim_end());
    let (before, rest) = text.split_once(&begin).ok_or_else(|| missing(&begin))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| missing(END))?;
    let content = content.trim();
    Ok(format!("{before}{begin}\n{content}\n\n{END}{after}"))
}
