//! Machine: draws the events of a story as a time line with three lanes, in SVG.

use std::time::Duration;

use super::markup::{escaped, escaped_attribute};
use crate::story::{EventLine, EventMark, seconds};

/// The heights, in pixels, of the lanes of the user, of the operator, and of the server with the exploration.
const USER: usize = 40;
const OPERATOR: usize = 88;
const SERVER: usize = 136;

/// The heights of the names of perturbations, of the numbers of seconds, and of the whole drawing.
const NAMES: usize = 12;
const SECONDS: usize = 168;
const HEIGHT: usize = 178;

/// The distance of the first event and of the last event from the edge, in pixels.
const MARGIN: usize = 28;

/// The width of a number of seconds and of a character of a name, in pixels.
const SECONDS_WIDTH: usize = 56;
const CHARACTER_WIDTH: usize = 7;

/// The shapes of a time line that is drawn so far.
struct Drawing<'a> {
    /// The start of the ids of the events in the story.
    id: &'a str,
    /// What stands beside the first perturbation.
    name: &'a str,
    shapes: String,
    /// The position behind the last number of seconds.
    after_seconds: usize,
    /// The position behind the last name.
    after_name: usize,
}

/// Draws the events of a story. `name` is the name of the perturbation; `id` is the start of the ids of the events in
/// the story, to which the shapes are linked.
pub(crate) fn timeline(events: &[&EventLine], name: &str, id: &str) -> String {
    let mut drawing = Drawing {
        id,
        name,
        shapes: String::new(),
        after_seconds: 0,
        after_name: 0,
    };
    let mut x = MARGIN;
    let mut before: Option<&EventLine> = None;
    for (number, event) in events.iter().enumerate() {
        x += before.map_or(0, |before| step(before, event));
        drawing.add(number, event, x);
        before = Some(event);
    }
    let width = (x + MARGIN)
        .max(drawing.after_name)
        .max(drawing.after_seconds);
    let lanes = [USER, OPERATOR, SERVER]
        .map(|y| format!("<line class=\"lane\" x1=\"0\" y1=\"{y}\" x2=\"100%\" y2=\"{y}\"/>"));
    format!(
        "<svg width=\"{width}\" height=\"{HEIGHT}\" role=\"group\" \
         aria-label=\"Time line with {} events\">{}{}</svg>",
        events.len(),
        lanes.concat(),
        drawing.shapes,
    )
}

/// Returns the distance of two events, in pixels: more for a longer time, but not in proportion.
fn step(before: &EventLine, event: &EventLine) -> usize {
    let time = event.at.saturating_sub(before.at);
    let is_read = before.mark == EventMark::Read && event.mark == EventMark::Read;
    let least = if is_read { 14 } else { 28 };
    let more = [10, 100, 1_000, 10_000].map(|millis| Duration::from_millis(millis) < time);
    least + 8 * more.into_iter().filter(|longer| *longer).count()
}

impl Drawing<'_> {
    fn add(&mut self, number: usize, event: &EventLine, x: usize) {
        let (class, shape) = shape(event.mark, x);
        let title = match event.mark {
            EventMark::LeftOut => escaped(&event.text),
            EventMark::Perturbed => escaped(&format!("{} s: {}", seconds(event.at), event.text)),
            _ => escaped(&format!(
                "{} s, {}: {}",
                seconds(event.at),
                event.label,
                event.text
            )),
        };
        // The turning points are stops of the tab key; the many reads and writes are not.
        let stop = match event.mark {
            EventMark::Perturbed | EventMark::Exited | EventMark::User => "",
            _ => " tabindex=\"-1\"",
        };
        let id = escaped_attribute(self.id);
        self.shapes.push_str(&format!(
            "<a class=\"{class}\" href=\"#{id}-{number}\"{stop}><title>{title}</title>{shape}</a>"
        ));
        if event.mark == EventMark::Perturbed && self.after_name == 0 {
            let (name, left) = (escaped(self.name), x + 10);
            self.shapes.push_str(&format!(
                "<text class=\"name\" x=\"{left}\" y=\"{NAMES}\">{name}</text>"
            ));
            self.after_name = left + CHARACTER_WIDTH * self.name.chars().count() + MARGIN;
        }
        if event.mark != EventMark::LeftOut && x >= self.after_seconds {
            let (half, time) = (SECONDS_WIDTH / 2, event.at.as_secs_f64());
            self.shapes.push_str(&format!(
                "<line class=\"tick\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>\
                 <text class=\"seconds\" x=\"{x}\" y=\"{SECONDS}\">{time:.2} s</text>",
                SERVER + 14,
                SERVER + 18,
            ));
            self.after_seconds = x + 2 * half;
        }
    }
}

/// Returns the class of an event, and its shape at a position.
fn shape(mark: EventMark, x: usize) -> (&'static str, String) {
    let (left, right) = (x - 7, x + 7);
    match mark {
        EventMark::User => {
            let arrow = SERVER - 9;
            let shape = format!(
                "<path class=\"stem\" d=\"M{x} {USER}V{SERVER}\"/>\
                 <path d=\"M{} {arrow}h10l-5 9z\"/><rect x=\"{left}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"3\"/>",
                x - 5,
                USER - 7,
            );
            ("user", shape)
        }
        EventMark::Started => {
            let top = OPERATOR - 9;
            ("started", format!("<path d=\"M{left} {top}v18l16 -9z\"/>"))
        }
        EventMark::Exited => {
            let top = OPERATOR - 7;
            (
                "exited",
                format!("<path class=\"cross\" d=\"M{left} {top}l14 14M{right} {top}l-14 14\"/>"),
            )
        }
        EventMark::Read => (
            "read",
            format!("<circle cx=\"{x}\" cy=\"{OPERATOR}\" r=\"4.5\"/>"),
        ),
        EventMark::Write { number, code } => write_shape(number, code, x),
        EventMark::Perturbed => {
            let (top, bottom) = (NAMES - 8, SERVER + 10);
            let shape = format!(
                "<path class=\"cut\" d=\"M{x} {top}V{bottom}\"/>\
                 <path d=\"M{x} {}l9 9l-9 9l-9 -9z\"/>",
                SERVER - 9,
            );
            ("perturbed", shape)
        }
        EventMark::Quiet => {
            let top = OPERATOR - 8;
            (
                "quiet",
                format!(
                    "<path d=\"M{} {top}h4v16h-4zM{} {top}h4v16h-4z\"/>",
                    x - 6,
                    x + 2
                ),
            )
        }
        EventMark::LeftOut => (
            "left-out",
            format!("<text x=\"{x}\" y=\"{}\">…</text>", OPERATOR - 6),
        ),
    }
}

fn write_shape(number: Option<usize>, code: Option<u16>, x: usize) -> (&'static str, String) {
    let label = number.map(|number| number.to_string()).unwrap_or_default();
    let radius = if number.is_some() { 11 } else { 6 };
    let stem = OPERATOR + radius;
    let (class, end) = match code {
        Some(code) => {
            let class = if code < 400 { "write" } else { "write failed" };
            let (left, top) = (x - 5, SERVER - 5);
            let end = format!(
                "<path class=\"stem\" d=\"M{x} {stem}V{SERVER}\"/>\
                 <rect x=\"{left}\" y=\"{top}\" width=\"10\" height=\"10\"/>"
            );
            (class, end)
        }
        None => {
            let (half, left, right) = ((stem + SERVER) / 2, x - 4, x + 4);
            let end = format!(
                "<path class=\"stem\" d=\"M{x} {stem}V{half}\"/>\
                 <path class=\"cross\" d=\"M{left} {half}l8 8M{right} {half}l-8 8\"/>"
            );
            ("write lost", end)
        }
    };
    let shape = format!(
        "{end}<circle cx=\"{x}\" cy=\"{OPERATOR}\" r=\"{radius}\"/><text x=\"{x}\" y=\"{}\">{label}</text>",
        OPERATOR + 4,
    );
    (class, shape)
}
