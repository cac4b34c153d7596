//! Takes the pictures of the debug page that the book shows, from the pages of the tests that play its stories.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo;

/// The names of the stories, with the heights of their pictures.
const STORIES: [(&str, u32); 5] = [
    ("missing-right", 620),
    ("hot-loop", 560),
    ("hanging", 560),
    ("dead-watch", 490),
    ("retried", 620),
];

const WIDTH: u32 = 1000;

/// Plays the stories, and takes a picture of each page with Chromium.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let pages = root.join("target/pictures");
    let pictures = root.join("docs/guide/pictures");
    for folder in [&pages, &pictures] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut tests = cargo::command(root);
    tests.args([
        "test", "-p", "steersman-manager", "--lib", "debug_page::tests",
    ]);
    ended(tests.env("STEERSMAN_PAGES", &pages), "the stories")?;
    for (story, height) in STORIES {
        let page = pages.join(story).with_extension("html");
        let picture = pictures.join(story).with_extension("png");
        let mut shown = OsString::from("file://");
        shown.push(&page);
        let mut screenshot = OsString::from("--screenshot=");
        screenshot.push(&picture);
        let mut chromium = Command::new("chromium");
        chromium
            .args([
                "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            ])
            .arg(format!("--window-size={WIDTH},{height}"))
            .arg(screenshot)
            .arg(shown)
            .stderr(Stdio::null());
        ended(&mut chromium, "chromium")?;
        if !picture.exists() {
            return Err(format!("chromium took no picture of {}", page.display()));
        }
    }
    Ok(())
}

fn ended(command: &mut Command, what: &str) -> Result<(), String> {
    let status = command.status();
    let status = status.map_err(|error| format!("{what} could not be started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{what} ended with {status}")),
    }
}
