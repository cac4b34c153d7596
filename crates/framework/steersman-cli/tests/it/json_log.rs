//! Tests JSON log lines of processes that panic or end with an error, with a strict parser.

use std::fmt;
use std::process::Command;

use clap::Parser as _;
use serde_json::{Map, Value};
use steersman_cli::{Args, NoSettings, Program};
use steersman_testenv::json_lines;

/// The environment variable that selects the part of a test for a child process.
const PART: &str = "STEERSMAN_CLI_TEST_PART";

/// Runs this test in a child process with `PART` set to `part`, and returns its log lines.
fn log_of(test: &str, part: &str) -> Vec<Map<String, Value>> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(PART, part)
        .env("STEERSMAN_LOG_FORMAT", "json")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{log}");
    json_lines(&log).unwrap()
}

fn part() -> Option<String> {
    std::env::var(PART).ok()
}

fn args(words: &[&str]) -> Args {
    Args::parse_from(["program", "--log-format=json"].iter().chain(words))
}

fn text<'a>(line: &'a Map<String, Value>, key: &str) -> &'a str {
    line[key].as_str().unwrap()
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write")]
struct Outer(#[source] fmt::Error);

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no form")
    }
}

/// LOG-1: each event is one flat JSON object with unique keys.
#[test]
fn each_event_is_one_flat_object_with_the_fields_of_its_spans() {
    if part().is_some() {
        args(&["--log-level=trace"]).init_logging().unwrap();
        let outer =
            tracing::error_span!("reconcile", controller = "site", name = "hello", kept = 1);
        let _outer = outer.enter();
        let inner = tracing::info_span!("child", name = "pages", later = tracing::field::Empty);
        let _inner = inner.enter();
        inner.record("later", true);
        let error = Outer(fmt::Error);
        let error: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(
            name = "own",
            kept = 1,
            level = 7,
            error,
            ratio = 0.5,
            none = f64::NAN,
            large = u64::MAX,
            huge = u128::MAX,
            text = "a \"b\"\n\u{1}ü\u{2028}",
            absent = Option::<u64>::None,
            "it {}",
            "works\n"
        );
        tracing::info!("again");
        return;
    }
    let test = "json_log::each_event_is_one_flat_object_with_the_fields_of_its_spans";
    let [line, again] = &log_of(test, "spans")[..] else {
        panic!("there are two events");
    };
    let mut expected = serde_json::json!({
        "level": "warn", "logger": "it::json_log", "msg": "it works\n", "span": "reconcile:child",
        "controller": "site", "name": "pages", "reconcile.name": "hello", "event.name": "own",
        "kept": 1, "later": true, "event.level": 7, "ratio": 0.5, "none": "NaN",
        "large": u64::MAX, "huge": u128::MAX.to_string(),
        "text": "a \"b\"\n\u{1}ü\u{2028}",
        "error": "cannot write: an error occurred when formatting an argument",
    });
    expected["ts"] = line["ts"].clone();
    assert_eq!(Value::Object(line.clone()), expected);
    let time: Result<jiff::Timestamp, _> = text(line, "ts").parse();
    assert!(time.is_ok() && text(line, "ts").ends_with('Z'), "{line:?}");
    assert_eq!(
        (text(again, "msg"), text(again, "controller")),
        ("again", "site")
    );
}

/// LOG-2: the line of a panic has the fields of the span, at every log level.
#[test]
fn a_panic_is_one_line_with_the_object_that_it_met() {
    if let Some(part) = part() {
        let level = if part == "off" { "off" } else { "info" };
        args(&["--log-level", level]).init_logging().unwrap();
        let span = tracing::error_span!("reconcile", name = "hello", later = tracing::field::Empty);
        let thread = std::thread::Builder::new().name("worker".to_owned());
        let thread = thread.spawn(move || {
            let _entered = span.enter();
            match &*part {
                // The panic occurs while an event, or a value of a span, is recorded.
                "event" => tracing::info!(value = ?Panics, "said"),
                "span" => drop(span.record("later", tracing::field::debug(Panics))),
                _ => panic!("no {}", "form"),
            }
        });
        assert!(thread.unwrap().join().is_err());
        return;
    }
    let test = "json_log::a_panic_is_one_line_with_the_object_that_it_met";
    for part in ["panic", "off", "event", "span"] {
        let lines = log_of(test, part);
        let [line] = &lines[..] else {
            panic!("{part}: {lines:?}");
        };
        let expected = ("error", "panic", "a thread panicked", "no form", "worker");
        let found = ["level", "logger", "msg", "panic", "thread"].map(|key| text(line, key));
        assert_eq!(found, <[&str; 5]>::from(expected), "{part}");
        assert!(text(line, "location").contains("json_log.rs:"), "{line:?}");
        let name = line.get("name").and_then(Value::as_str);
        // At the level `off`, no span exists.
        assert_eq!(name, (part != "off").then_some("hello"), "{part}: {line:?}");
    }
}

/// LOG-2: the error that ends the process is the last line of the log.
#[test]
fn the_error_that_ends_the_process_is_the_last_line() {
    if let Some(part) = part() {
        let args = args(&["--log-level=info"]);
        match &*part {
            "logged" => drop(args.init_logging().unwrap()),
            _ => assert!(part == "early"),
        }
        args.exit_code(Err(Outer(fmt::Error)));
        args.exit_code(Ok::<(), Outer>(()));
        return;
    }
    let test = "json_log::the_error_that_ends_the_process_is_the_last_line";
    for part in ["logged", "early"] {
        let lines = log_of(test, part);
        let [line] = &lines[..] else {
            panic!("{part}: {lines:?}");
        };
        assert_eq!(text(line, "level"), "error");
        assert_eq!(text(line, "msg"), "the program ends with an error");
        // The file name of this test program ends with a hash.
        assert!(text(line, "logger").starts_with("it-"), "{line:?}");
        assert_eq!(
            text(line, "error"),
            "cannot write: an error occurred when formatting an argument"
        );
    }
}

/// LOG-2: an error about the command line is a line of the log.
#[tokio::test]
async fn an_error_about_the_command_line_is_a_line_too() {
    if part().is_some() {
        // The arguments of this process are those of the test runner, which the program does not know.
        let program = Program::<NoSettings>::new("program", "1.0.0");
        program.setup(|_, _| Ok(())).run().await;
        return;
    }
    let test = "json_log::an_error_about_the_command_line_is_a_line_too";
    let lines = log_of(test, "usage");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(text(&lines[0], "msg"), "the program ends with an error");
    let error = text(&lines[0], "error");
    assert!(
        error.starts_with("unexpected argument '--exact'"),
        "{error}"
    );
}
