//! Machine: prints a story as text of at most 100 columns.

use super::plain_text::{seconds, wrap};
use super::story_line::{DiffLine, EventLine, EventMark, Story, StoryBlock};

/// The number of columns. A character counts as one.
const WIDTH: usize = 100;

/// The column of what happened, behind a time with its unit, and a label.
const LABEL_WIDTH: usize = 9;

/// The width of a time without its unit, such as `  1.204`.
const TIME_WIDTH: usize = 7;

/// Prints a story, with a line break at its end.
pub(crate) fn print(story: &Story) -> String {
    let headline = format!("{}: {}", story.name, story.sentence);
    let mut lines = wrap(&headline, "", "  ", WIDTH);
    for section in &story.sections {
        lines.push(String::new());
        lines.push(section.title.to_owned());
        for block in &section.blocks {
            print_block(block, &mut lines);
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn print_block(block: &StoryBlock, lines: &mut Vec<String>) {
    match block {
        StoryBlock::Text(text) => lines.extend(wrap(text, "  ", "  ", WIDTH)),
        StoryBlock::Numbered(number, text) => {
            let first = format!("  {number}. ");
            let others = " ".repeat(first.len());
            lines.extend(wrap(text, &first, &others, WIDTH));
        }
        StoryBlock::Item(text) => lines.extend(wrap(text, "  • ", "    ", WIDTH)),
        StoryBlock::Event(event) => print_event(event, lines),
        StoryBlock::Diff(diff) => print_diff(diff, "    ", lines),
        StoryBlock::Quote(quoted) => print_quote(quoted, "    ", lines),
        StoryBlock::Command(command) => {
            command
                .lines()
                .for_each(|line| lines.extend(shell_lines(line)));
        }
    }
}

fn print_event(event: &EventLine, lines: &mut Vec<String>) {
    let is_mark = event.mark == EventMark::Perturbed;
    let time = seconds(event.at);
    let first = match event.mark {
        EventMark::Perturbed => format!("{time:>TIME_WIDTH$}s  {} ", event.label),
        EventMark::LeftOut => format!("{:>TIME_WIDTH$}   {:LABEL_WIDTH$} ", "", event.label),
        _ => format!("{time:>TIME_WIDTH$}s  {:LABEL_WIDTH$} ", event.label),
    };
    let others = " ".repeat(first.chars().count());
    let below = " ".repeat(TIME_WIDTH + LABEL_WIDTH + 4);
    // Empty lines around a perturbation lead the eye to it.
    if is_mark && lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines.extend(wrap(&event.text, &first, &others, WIDTH));
    print_diff(&event.diff, &below, lines);
    print_quote(&event.output, &below, lines);
    if is_mark {
        lines.push(String::new());
    }
}

fn print_diff(diff: &[DiffLine], indent: &str, lines: &mut Vec<String>) {
    lines.extend(
        diff.iter()
            .map(|line| format!("{indent}{}", line.print()).trim_end().to_owned()),
    );
}

fn print_quote(quoted: &[String], indent: &str, lines: &mut Vec<String>) {
    for line in quoted {
        let prefix = format!("{indent}| ");
        lines.extend(wrap(line, &prefix, &prefix, WIDTH));
    }
}

/// Breaks a command at spaces outside of quotes, so that a shell reads the lines as one command.
fn shell_lines(command: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut quote = None;
    for char in command.trim().chars() {
        match (char, quote) {
            (' ', None) => words.push(String::new()),
            ('\'' | '"', None) => quote = Some(char),
            (char, Some(open)) if char == open => quote = None,
            _ => {}
        }
        if let Some(word) = words.last_mut().filter(|_| char != ' ' || quote.is_some()) {
            word.push(char);
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::from(" ");
    for word in words.iter().filter(|word| !word.is_empty()) {
        // A broken line ends with a space and a backslash.
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() + 2 > WIDTH {
            lines.push(format!("{line} \\"));
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_outside_of_quotes() {
        assert_eq!(shell_lines("a --only 'b c'"), ["  a --only 'b c'"]);
        let quoted = format!("'{}'", "x ".repeat(44));
        let lines = shell_lines(&format!("explore --scenario {quoted} --only a"));
        assert_eq!(
            lines,
            [
                "  explore --scenario \\".to_owned(),
                format!("    {quoted} \\"),
                "    --only a".to_owned()
            ]
        );
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
    }
}
