//! Words: the parts of the story of a finding, before they are printed as text or as HTML.

use std::time::Duration;

/// The story of a finding. All texts are free of control characters and of values of Secrets.
#[derive(Debug)]
pub(crate) struct Story {
    /// The name of the perturbation.
    pub(crate) name: String,
    /// The problem as one sentence, without a full stop.
    pub(crate) sentence: String,
    /// The parts, in reading order.
    pub(crate) sections: Vec<StorySection>,
}

/// A part of a story, under a title.
#[derive(Debug)]
pub(crate) struct StorySection {
    pub(crate) title: &'static str,
    pub(crate) blocks: Vec<StoryBlock>,
}

/// A block of a section.
#[derive(Debug)]
pub(crate) enum StoryBlock {
    /// A paragraph.
    Text(String),
    /// An item of a list, with its number.
    Numbered(usize, String),
    /// An item of a list without numbers.
    Item(String),
    /// Something that happened.
    Event(EventLine),
    /// A difference of YAML.
    Diff(Vec<DiffLine>),
    /// Lines that are quoted as they are, such as the output of a process.
    Quote(Vec<String>),
    /// A command for a shell.
    Command(String),
}

/// Something that happened in a world, or several reads that are told together.
#[derive(Debug)]
pub(crate) struct EventLine {
    /// The time since the start of the world.
    pub(crate) at: Duration,
    pub(crate) mark: EventMark,
    /// The first column, such as `write 3`.
    pub(crate) label: String,
    pub(crate) text: String,
    /// What the event changed.
    pub(crate) diff: Vec<DiffLine>,
    /// The last lines that a process printed.
    pub(crate) output: Vec<String>,
}

/// What a time line draws for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventMark {
    User,
    Started,
    Exited,
    Read,
    Write {
        /// The number of the write, if it is a point.
        number: Option<usize>,
        /// The code of the server; `None` for a write that was not carried out.
        code: Option<u16>,
    },
    Perturbed,
    Quiet,
    /// Stands for events that the story leaves out.
    LeftOut,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffLine {
    pub(crate) sign: DiffSign,
    pub(crate) text: String,
}

/// What a line of a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffSign {
    /// A line that both texts have.
    Same,
    Removed,
    Added,
    /// The path of the field that has the lines below.
    Path,
    /// A remark about the difference.
    Note,
}

impl StorySection {
    pub(crate) fn new(title: &'static str, blocks: Vec<StoryBlock>) -> Self {
        Self { title, blocks }
    }
}

impl EventLine {
    pub(crate) fn new(at: Duration, mark: EventMark, label: &str, text: String) -> Self {
        Self {
            at,
            mark,
            label: label.to_owned(),
            text,
            diff: Vec::new(),
            output: Vec::new(),
        }
    }
}

impl DiffLine {
    pub(crate) fn new(sign: DiffSign, text: impl Into<String>) -> Self {
        Self {
            sign,
            text: text.into(),
        }
    }

    /// Returns the line as `diff -u` prints it.
    pub(crate) fn print(&self) -> String {
        let Self { sign, text } = self;
        match sign {
            DiffSign::Same => format!("  {text}"),
            DiffSign::Removed => format!("- {text}"),
            DiffSign::Added => format!("+ {text}"),
            DiffSign::Path if text.is_empty() => "@@".to_owned(),
            DiffSign::Path => format!("@@ {text}"),
            DiffSign::Note => format!("… {text}"),
        }
    }
}
