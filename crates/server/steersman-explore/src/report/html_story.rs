//! Machine: prints the story of a finding as HTML.

use super::markup::{escaped, escaped_attribute};
use super::timeline::timeline;
use crate::story::{
    DiffLine, DiffSign, EventLine, EventMark, Story, StoryBlock, StorySection, seconds,
};

/// The list that blocks of a section are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockList {
    None,
    Numbers,
    Items,
    Events,
}

/// The heads of the lanes, and what the shapes mean.
const LANES: &str = "<div class=\"lanes\" aria-hidden=\"true\"><span>user</span><span>operator</span>\
                     <span>server</span></div>";
const LEGEND: &str = "Circles with numbers are writes, small circles are reads, and the red line is what the \
                      exploration did. Distances are not in proportion to time. Each shape leads to its line below.";

/// Prints a story as an article with an id.
pub(crate) fn article(story: &Story, id: &str) -> String {
    let blocks = story.sections.iter().flat_map(|section| &section.blocks);
    let events: Vec<&EventLine> = blocks
        .filter_map(|block| match block {
            StoryBlock::Event(event) => Some(event),
            _ => None,
        })
        .collect();
    let mut html = format!(
        "<article id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h3 id=\"{id}-title\"><code>{}</code> {}</h3>\n",
        escaped(&story.name),
        escaped(&story.sentence),
    );
    if !events.is_empty() {
        html.push_str(&format!(
            "<figure class=\"timeline\"><div class=\"drawing\">{LANES}<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Time line\">{}</div></div><figcaption>{LEGEND}</figcaption></figure>\n",
            timeline(&events, &story.name, id),
        ));
    }
    let mut events_before = 0;
    for section in &story.sections {
        html.push_str(&section_html(section, id, &mut events_before));
    }
    html.push_str("</article>\n");
    html
}

fn section_html(section: &StorySection, id: &str, events_before: &mut usize) -> String {
    let mut html = format!("<h4>{}</h4>\n", escaped(section.title));
    let mut open = BlockList::None;
    for block in &section.blocks {
        let list = BlockList::of(block);
        if list != open {
            html.push_str(open.end());
            html.push_str(list.start());
            open = list;
        }
        match block {
            StoryBlock::Text(text) => html.push_str(&format!("<p>{}</p>\n", escaped(text))),
            StoryBlock::Numbered(_, text) | StoryBlock::Item(text) => {
                html.push_str(&format!("<li>{}</li>\n", escaped(text)));
            }
            StoryBlock::Event(event) => {
                html.push_str(&event_html(event, &format!("{id}-{events_before}")));
                *events_before += 1;
            }
            StoryBlock::Diff(lines) => html.push_str(&diff_html(lines)),
            StoryBlock::Quote(lines) => html.push_str(&quote_html(lines)),
            StoryBlock::Command(command) => {
                let command = escaped(command);
                html.push_str(&format!(
                    "<pre class=\"command\"><code>{command}</code></pre>\n"
                ));
            }
        }
    }
    html.push_str(open.end());
    html
}

impl BlockList {
    fn of(block: &StoryBlock) -> Self {
        match block {
            StoryBlock::Numbered(..) => Self::Numbers,
            StoryBlock::Item(_) => Self::Items,
            StoryBlock::Event(_) => Self::Events,
            StoryBlock::Text(_)
            | StoryBlock::Diff(_)
            | StoryBlock::Quote(_)
            | StoryBlock::Command(_) => Self::None,
        }
    }

    fn start(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Numbers => "<ol>\n",
            Self::Items => "<ul>\n",
            Self::Events => "<ol class=\"events\">\n",
        }
    }

    fn end(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Items => "</ul>\n",
            Self::Numbers | Self::Events => "</ol>\n",
        }
    }
}

fn event_html(event: &EventLine, id: &str) -> String {
    let class = match event.mark {
        EventMark::User => "user",
        EventMark::Started => "started",
        EventMark::Exited => "exited",
        EventMark::Read => "read",
        EventMark::Write { .. } => "write",
        EventMark::Perturbed => "perturbed",
        EventMark::Quiet => "quiet",
        EventMark::LeftOut => "left-out",
    };
    let time = match event.mark {
        EventMark::LeftOut => String::new(),
        _ => format!("{} s", seconds(event.at)),
    };
    let mut html = format!(
        "<li id=\"{}\" class=\"{class}\"><span class=\"time\">{time}</span> <span class=\"label\">{}</span> \
         <span class=\"text\">{}</span>",
        escaped_attribute(id),
        escaped(&event.label),
        escaped(&event.text),
    );
    if !event.diff.is_empty() {
        html.push_str(&diff_html(&event.diff));
    }
    if !event.output.is_empty() {
        html.push_str(&quote_html(&event.output));
    }
    html.push_str("</li>\n");
    html
}

fn diff_html(lines: &[DiffLine]) -> String {
    let lines = lines.iter().map(|line| {
        let class = match line.sign {
            DiffSign::Same => "same",
            DiffSign::Removed => "removed",
            DiffSign::Added => "added",
            DiffSign::Path => "path",
            DiffSign::Note => "note",
        };
        format!("<span class=\"{class}\">{}</span>", escaped(&line.print()))
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "<pre class=\"diff\"><code>{}</code></pre>\n",
        lines.join("\n")
    )
}

fn quote_html(lines: &[String]) -> String {
    format!(
        "<pre class=\"output\"><code>{}</code></pre>\n",
        escaped(&lines.join("\n"))
    )
}
