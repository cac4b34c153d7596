//! Pages of the book: each table between two marks.

use std::fs;
use std::path::Path;

/// Where a table ends.
const END: &str = "<!-- end of figures -->\n";

/// Puts a text between the marks of a table.
///
/// # Errors
/// Names the page, and the mark that it lacks.
pub(crate) fn write(page: &Path, table: &str, content: &str) -> Result<(), String> {
    let name = page.display();
    let text = fs::read_to_string(page).map_err(|error| format!("{name}: {error}"))?;
    let text = replace(&text, table, content).map_err(|problem| format!("{name} {problem}"))?;
    fs::write(page, text).map_err(|error| format!("{name}: {error}"))
}

/// # Errors
/// Says which mark is missing, to be set behind the page's name.
pub(crate) fn replace(text: &str, table: &str, content: &str) -> Result<String, String> {
    let begin = format!("<!-- figures: {table} -->\n");
    let missing = |mark: &str| format!("has no line {}", mark.trim_end());
    let (before, rest) = text.split_once(&begin).ok_or_else(|| missing(&begin))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| missing(END))?;
    let content = content.trim();
    Ok(format!("{before}{begin}\n{content}\n\n{END}{after}"))
}
