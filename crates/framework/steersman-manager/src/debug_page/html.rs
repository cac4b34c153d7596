//! Machine: the frame of the pages, and the parts that several pages have.

use maud::{DOCTYPE, Markup, html};
use steersman_serve::SignInProblem;

use super::text::{encoded, link, seconds};
use super::view::{ControllerRow, PageOf, RequestRow};

/// A page of the navigation: its path below `/debug/`, its title and its key.
type NavigationLink = (&'static str, &'static str, &'static str);

const NAVIGATION: [NavigationLink; 4] = [
    ("./", "Overview", "1"),
    ("caches", "Caches", "2"),
    ("server", "Server", "3"),
    ("replicas", "Replicas", "4"),
];

/// Returns a whole page around the content of a view. `path` is the path of the view below `/debug/`, `./` for the overview.
pub(super) fn page(
    path: &str,
    view: &str,
    (title, replica): (&str, &str),
    content: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{title} – {replica}")))
            body {
                a.skip href="#content" { "To the content" }
                header {
                    strong { (replica) }
                    nav aria-label="Pages" {
                        @for (target, name, key) in NAVIGATION {
                            a href=(target) data-key=(key) aria-current=[(target == path).then_some("page")]
                                title={ "key " (key) } { (name) }
                        }
                    }
                    div.live {
                        span #state role="status" { "as of the request" }
                        button #pause hidden aria-pressed="false" title="key p" { "Pause" }
                    }
                }
                main #content data-view=(view) { (content) }
                script src="page.js" defer {}
            }
        }
    }
}

/// Returns the page with the form for a token.
pub(super) fn sign_in(problem: SignInProblem) -> Markup {
    let problem = match problem {
        SignInProblem::Refused => {
            Some("The token was refused: it has expired, or it is of another cluster.")
        }
        SignInProblem::NoToken => Some(
            "This is no token: only letters, digits and the characters - . _ ~ + / = are in tokens, at most 3,900.",
        ),
        _ => None,
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Sign in"))
            body {
                main #content {
                    h1 { "Sign in" }
                    @if let Some(problem) = problem { p.bad role="alert" { (problem) } }
                    p { "The pages of this operator are open to users with the permission to "
                        code { "get" } " the paths " code { "/debug" } " and " code { "/debug/*" }
                        " (" code { "nonResourceURLs" } " of a ClusterRole)." }
                    p { "A token of a ServiceAccount with this permission:" }
                    pre { "kubectl create token NAME --namespace NAMESPACE" }
                    form.find method="post" action="sign-in" {
                        label for="token" { "Token" }
                        input #token type="password" name="token" autocomplete="off" required autofocus;
                        button { "Sign in" }
                    }
                    p.muted { "The token stays in a cookie of this browser for an hour. The browser sends it to paths below /debug of this host." }
                }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) }
            link rel="stylesheet" href="page.css";
            link rel="icon" href="data:,";
        }
    }
}

/// Returns facts, each a value and its name.
pub(super) fn facts(facts: &[(String, &str)]) -> Markup {
    html! {
        ul.facts {
            @for (value, name) in facts { li { b { (value) } span { (name) } } }
        }
    }
}

/// Returns a table that scrolls on a narrow screen. A head that begins with `#` is of a column of numbers.
pub(super) fn table(heads: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    @for head in heads {
                        @match head.strip_prefix('#') {
                            Some(number) => th.n scope="col" { (number) },
                            None => th scope="col" { (head) },
                        }
                    }
                } }
                tbody { @for row in rows { tr { (row) } } }
            }
        }
    }
}

/// Returns the form that filters the rows of a page.
pub(super) fn filter<T>(rows: &PageOf<T>, what: &str) -> Markup {
    html! {
        form.find role="search" {
            input type="search" name="filter" value=(rows.filter) aria-label={ "Filter " (what) }
                placeholder={ "Filter " (what) " (key /)" };
            button { "Filter" }
        }
    }
}

/// Returns the links to the page before and after; nothing if one page has all rows. `path` is that of the view.
pub(super) fn pages<T>(rows: &PageOf<T>, path: &str) -> Markup {
    let end = rows.offset + rows.items.len();
    if rows.offset == 0 && end == rows.total {
        return html! {};
    }
    let filter = encoded(&rows.filter);
    let limit = rows.limit;
    let to = |offset: usize| format!("{path}?filter={filter}&offset={offset}&limit={limit}");
    html! {
        div.pages {
            @if rows.offset > 0 { a href=(to(rows.offset.saturating_sub(limit))) rel="prev" { "Before" } }
            span.muted { (rows.offset + 1) " to " (end) " of " (rows.total) }
            @if end < rows.total { a href=(to(rows.offset + limit)) rel="next" { "After" } }
        }
    }
}

/// Returns a link to the page of a request's object.
/// Returns a request, with a link to its page if the requests of its controller are about objects.
pub(super) fn request(controller: &ControllerRow, request: &str) -> Markup {
    html! {
        @match controller.kind {
            Some(_) => a href=(link(&controller.name, request)) { (request) },
            None => (request),
        }
    }
}

/// Returns the state of a request in a sentence.
pub(super) fn request_state(row: &RequestRow) -> Markup {
    let since = row.since.map(seconds);
    html! {
        @match (row.state, since, row.due_in) {
            ("running", Some(since), _) => { "runs for " (since) }
            ("running", None, _) => "runs",
            ("ready", Some(since), _) => { "has waited for a worker for " (since) }
            ("ready", None, _) => "waits for a worker",
            (_, _, Some(due)) => { "runs in " (seconds(due)) }
            (state, ..) => (state),
        }
        @for step in &row.in_progress { ", " (seconds(step.seconds)) " of it in " (step.text) }
        @if row.state == "running" && row.in_progress.is_empty() { ", in the reconciler's own code" }
        @if row.runs_again { ", and runs again after that" }
        @if row.failures > 0 {
            span.bad { ", " (row.failures) " failures in a row" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_one_page_has_no_links_to_others() {
        let rows = |offset, items: usize, total| PageOf {
            items: vec![(); items],
            total,
            offset,
            limit: 2,
            filter: "a b".to_owned(),
        };
        assert_eq!(pages(&rows(0, 2, 2), "caches").0, "");
        let middle = pages(&rows(2, 2, 5), "caches").0;
        assert!(
            middle.contains("caches?filter=a%20b&amp;offset=0&amp;limit=2"),
            "{middle}"
        );
        assert!(
            middle.contains("offset=4") && middle.contains("3 to 4 of 5"),
            "{middle}"
        );
    }
}
