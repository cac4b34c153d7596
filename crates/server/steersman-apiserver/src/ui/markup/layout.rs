//! Machine: the frame of every page, and parts that pages share.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

/// The pages of the navigation: address, name and title.
const TABS: [(&str, &str); 4] = [
    ("/", "Objects"),
    ("/changes", "Changes"),
    ("/requests", "Requests"),
    ("/faults", "Faults"),
];

/// What every page shows around its content.
#[derive(Debug)]
pub(crate) struct PageFrame {
    /// The newest revision of the server.
    pub(crate) revision: u64,
    /// The number of planned faults, which every page warns of.
    pub(crate) faults: usize,
    /// The token of the forms.
    pub(crate) token: String,
}

impl PageFrame {
    /// Returns the whole page. `tab` is the address of its tab in the navigation.
    pub(crate) fn page(&self, tab: &str, title: &str, content: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · steersman-apiserver" }
                    link rel="icon" href="/icon.svg";
                    link rel="stylesheet" href="/page.css";
                    script src="/page.js" defer {}
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    nav aria-label="Pages" {
                        strong { "steersman-apiserver" }
                        @for (address, name) in TABS {
                            a href=(address) aria-current=[(address == tab).then_some("page")] { (name) }
                        }
                        span.spring {}
                        span id="state" data-live {
                            @if self.faults > 0 {
                                a.badge.warn href="/faults" { (count(self.faults, "fault", "faults")) " planned" }
                                " "
                            }
                            span.muted { "revision " (self.revision) }
                        }
                        button #pause type="button" hidden aria-pressed="false" title="Stop to follow changes" { "Pause" }
                    }
                    main id="content" tabindex="-1" { (content) }
                    footer {
                        "The same as JSON: " a #json href="/api/kinds" { "/api/kinds" }
                        ". Keys: " kbd { "/" } " the filter, " kbd { "p" } " pause."
                    }
                }
            }
        };
        page.into_string()
    }

    /// Returns the hidden field that every form that changes something needs.
    pub(crate) fn token_field(&self) -> Markup {
        html! { input type="hidden" name="token" value=(self.token); }
    }
}

/// Returns a page with a message, for instance about an address without a page.
pub(crate) fn message(title: &str, text: &str) -> Markup {
    html! {
        h1 { (title) }
        p { (text) }
        p { a href="/" { "All kinds of objects" } }
    }
}

/// Returns the time of day to milliseconds, with the whole time as a title.
pub(super) fn time(at: &Timestamp) -> Markup {
    let whole = at.to_string();
    let time = whole
        .split_once('T')
        .map_or(whole.as_str(), |(_, time)| time);
    let time = time
        .trim_end_matches('Z')
        .get(..12)
        .unwrap_or(time.trim_end_matches('Z'));
    html! { time datetime=(whole) title=(whole) { (time) } }
}

/// Returns a number with its noun.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// Returns a number with a comma after each group of three digits.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a text field of a filter.
pub(super) fn field(name: &str, label: &str, value: &str) -> Markup {
    html! {
        label { (label) input name=(name) value=(value) autocomplete="off" spellcheck="false"; }
    }
}

/// Returns a list of choices, of which the first, empty one is for "any".
pub(super) fn choice(name: &str, label: &str, value: &str, options: &[(&str, &str)]) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "any" }
                @for (option, text) in options {
                    option value=(option) selected[*option == value] { (text) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn times_have_milliseconds() {
        let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let text = time(&at).into_string();
        assert!(text.contains(">03:04:05.678<"), "{text}");
        let text = time(&Timestamp::UNIX_EPOCH).into_string();
        assert!(text.contains(">00:00:00<"), "{text}");
    }
}
