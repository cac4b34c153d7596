//! Replays the conversations recorded from a kube-apiserver (`tests/golden/README.md`).

mod case;
mod compare;
mod ledger;
mod transport;
mod https;
mod replay;
mod conformance;
mod corpus;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use steersman_apiserver::{ApiServer, ApiServerBuilder, Authorization};

use self::case::Case;
use self::replay::{Mismatch, replay};

/// Returns the folder of the conversations.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Returns the conversations of a topic by their paths, for instance `verbs/create-configmap`.
fn cases(topic: &str) -> BTreeMap<String, Case> {
    cases_in(&folder(), topic)
}

fn cases_in(folder: &Path, topic: &str) -> BTreeMap<String, Case> {
    let mut cases = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join(topic)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        cases.insert(format!("{topic}/{name}"), case_at(&path).unwrap());
    }
    cases
}

fn case_at(path: &Path) -> Result<Case, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| problem(&error))?;
    serde_json::from_slice(&text).map_err(|error| problem(&error))
}

/// Returns the cases that are known to fail, with the reasons.
fn pending() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder().join("pending.txt")).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries: Vec<(&str, &str)> = lines
        .map(|line| {
            line.split_once(' ')
                .unwrap_or_else(|| panic!("pending.txt: no reason in {line:?}"))
        })
        .collect();
    assert!(
        entries.is_sorted_by(|left, right| left.0 < right.0),
        "pending.txt is sorted and names each case once"
    );
    entries
        .into_iter()
        .map(|(case, reason)| (case.to_owned(), reason.to_owned()))
        .collect()
}

/// Returns a builder of a server like the recorded one: without controllers, and with RBAC.
fn builder() -> ApiServerBuilder {
    ApiServer::builder()
        .play_controllers(false)
        .authorization(Authorization::Rbac)
}

fn server() -> ApiServer {
    builder().build()
}

/// Replays every case of a topic, each against a new server.
#[expect(
    clippy::print_stdout,
    reason = "how many pass is news, and so is why one does not"
)]
async fn topic(name: &str) {
    let shown = std::env::var("GOLDEN").unwrap_or_default();
    let (pending, exceptions) = (pending(), exceptions());
    let mut wrong = String::new();
    let (mut passed, mut all) = (0, 0);
    for (path, case) in cases(name) {
        let ignored = exceptions.get(&path).map_or(&[][..], Vec::as_slice);
        let mismatches = replay(&server(), &case, ignored).await;
        all += 1;
        passed += usize::from(mismatches.is_empty());
        let reason = pending.get(&path);
        if reason.is_some()
            && (shown == "pending" || (!shown.is_empty() && path.starts_with(&shown)))
        {
            println!("{}", report(&path, &case, &mismatches));
        }
        if mismatches.is_empty() {
            for pointer in unneeded(&case, ignored).await {
                let _ = writeln!(
                    wrong,
                    "{path} does not differ at {pointer}: take it out of exceptions.txt"
                );
            }
        }
        match reason {
            None if !mismatches.is_empty() => wrong.push_str(&report(&path, &case, &mismatches)),
            Some(reason) if mismatches.is_empty() => {
                let _ = writeln!(
                    wrong,
                    "{path} passes: take it (\"{reason}\") out of pending.txt"
                );
            }
            _ => {}
        }
    }
    println!("{name}: {passed} of {all} as recorded");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Returns the JSON pointers at intended differences, by case.
fn exceptions() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(folder().join("exceptions.txt")).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut exceptions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        let [case, pointer, _reason] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("exceptions.txt: a case, a pointer and a reason in {line:?}");
        };
        exceptions
            .entry(case.to_owned())
            .or_default()
            .push(pointer.to_owned());
    }
    exceptions
}

/// Returns the exceptions without which the case passes, too.
async fn unneeded<'a>(case: &Case, ignored: &'a [String]) -> Vec<&'a str> {
    let mut unneeded = Vec::new();
    for pointer in ignored {
        let others: Vec<String> = ignored
            .iter()
            .filter(|one| *one != pointer)
            .cloned()
            .collect();
        if replay(&server(), case, &others).await.is_empty() {
            unneeded.push(pointer.as_str());
        }
    }
    unneeded
}

/// The list of exceptions can only get shorter, like that of pending cases.
#[tokio::test(start_paused = true)]
async fn an_exception_that_has_become_unnecessary_is_found() {
    let case = serde_json::from_value(serde_json::json!({
        "about": "A document that differs in one member.",
        "steps": [{"do": "GET /api", "got": {"status": 200, "body": {
            "kind": "APIVersions", "versions": ["v2"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "<x>"}],
        }}}],
    }));
    let case: Case = case.unwrap();
    let list = |pointers: &[&str]| pointers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let needed = list(&["/versions", "/serverAddressByClientCIDRs"]);
    assert!(replay(&server(), &case, &needed).await.is_empty());
    assert!(unneeded(&case, &needed).await.is_empty());
    let more = list(&["/versions", "/kind", "/serverAddressByClientCIDRs"]);
    assert_eq!(unneeded(&case, &more).await, ["/kind"]);
}

fn report(path: &str, case: &Case, mismatches: &[Mismatch]) -> String {
    let mut text = format!("{path}: {}\n", case.about);
    for mismatch in mismatches {
        let _ = writeln!(text, "{mismatch}");
    }
    text
}

macro_rules! topics {
    ($($topic:ident)*) => {
        const TOPICS: &[&str] = &[$(stringify!($topic)),*];

        $(#[tokio::test(start_paused = true)]
        async fn $topic() {
            topic(stringify!($topic)).await;
        })*
    };
}

topics!(verbs lists deletes watches shapes subresources kinds discovery jsonpatch mergepatch strategic apply managedfields crds builtins authz shards openapi own sweep);

#[test]
fn every_topic_is_replayed_and_every_pending_case_exists() {
    let mut known: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let topic = path.file_name().unwrap().to_str().unwrap();
            assert!(TOPICS.contains(&topic), "{topic} is replayed by no test");
            known.extend(cases(topic).into_keys());
        }
    }
    for (path, case) in cases("own") {
        assert!(
            case.source.is_some(),
            "{path} says nowhere where its rule stands"
        );
    }
    for (case, _) in exceptions() {
        assert!(known.contains(&case), "exceptions.txt: there is no {case}");
    }
    for (case, reason) in pending() {
        assert!(known.contains(&case), "pending.txt: there is no {case}");
        assert!(
            !reason.trim().is_empty(),
            "pending.txt: {case} has no reason"
        );
    }
}
