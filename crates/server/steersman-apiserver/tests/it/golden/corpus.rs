//! `cargo xtask corpus`: sends the manifests of a folder to the embedded server, and compares the answers
//! with a recording or with a second server.

mod difference;
mod folders;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_client::config::Kubeconfig;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use self::difference::{Folder, Recorded, Report, compare, is_definition};
use self::folders::{ANSWERS, folders};
use super::conformance::{configuration, run, say};
use super::https::Remote;
use super::ledger;
use super::transport::{Transport, request};

/// Set by `cargo xtask corpus`, which documents the values.
const FOLDER: &str = "STEERSMAN_CORPUS";
const AGAINST: &str = "STEERSMAN_CORPUS_AGAINST";
const RECORD: &str = "STEERSMAN_CORPUS_RECORD";

/// The field manager of requests.
const MANAGER: &str = "corpus";
/// The beginning of the names of files that `kubectl apply --server-side` sends.
const BY_KUBECTL: &str = "apply-kubectl";

/// Number of times that a definition is looked up until its kind is served.
const LOOKS: u32 = 100;
/// Time between two of them.
const BETWEEN: Duration = Duration::from_millis(100);

/// Sends the manifests of a folder in their order.
async fn send_all(server: &impl Transport, folder: &Folder) -> BTreeMap<String, Recorded> {
    let mut answers = BTreeMap::new();
    for (name, object) in &folder.manifests {
        answers.insert(name.clone(), send(server, name, object).await);
    }
    if let Some(ledger) = server.ledger() {
        ledger::clean(server, ledger).await;
    }
    answers
}

/// Sends one manifest: as an apply if its file name begins with `apply` ([`BY_KUBECTL`] for one of kubectl), otherwise
/// as a create, which is a dry run if the name begins with `dry`.
async fn send(server: &impl Transport, file: &str, object: &Value) -> Recorded {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some((collection, namespaced)) = collection(server, object).await else {
        return Recorded {
            status: 404,
            message: format!(
                "the server does not serve {} in {}",
                object["kind"], object["apiVersion"]
            ),
            ..Recorded::default()
        };
    };
    let mut path = collection.clone();
    if namespaced {
        let namespace = match object["metadata"]["namespace"].as_str() {
            None | Some("default") => "default",
            Some(other) => {
                let body = json!({"metadata": {"name": other}}).to_string();
                let place = format!("/api/v1/namespaces/{other}");
                if server
                    .send(request("POST", "/api/v1/namespaces", &body))
                    .await
                    .status
                    == 201
                    && let Some(ledger) = server.ledger()
                {
                    ledger.note(&place);
                }
                other
            }
        };
        let (version, plural) = collection.rsplit_once('/').unwrap_or_default();
        path = format!("{version}/namespaces/{namespace}/{plural}");
    }
    let is_dry = file.starts_with("dry");
    let is_apply = file.starts_with("apply");
    let place = place(file, &path, &text(&object["metadata"]["name"]));
    let verb = if is_apply { "PATCH" } else { "POST" };
    let mut ask = request(verb, &place, &object.to_string());
    if is_apply {
        let kind = "application/apply-patch+yaml";
        ask.headers.insert("Content-Type", kind);
    }
    let answer = server.send(ask).await;
    let (status, warnings) = (answer.status, answer.headers.get("warning").cloned());
    let answered: Value = serde_json::from_str(&answer.text().await).unwrap_or_default();
    let accepted = status < 300;
    if status == 201 && !is_dry {
        let own = format!("{path}/{}", text(&answered["metadata"]["name"]));
        if let Some(ledger) = server.ledger() {
            ledger.note(&own);
        }
        if is_definition(object) {
            served(server, &own).await;
        }
    }
    let shown = accepted && !is_definition(object);
    Recorded {
        status,
        message: if accepted {
            String::new()
        } else {
            text(&answered["message"])
        },
        warnings: warnings.unwrap_or_default(),
        object: shown
            .then(|| (String::new(), comparable(answered)))
            .into_iter()
            .collect(),
    }
}

/// Returns the path of a manifest's request, with its query.
fn place(file: &str, path: &str, name: &str) -> String {
    let manager = match file.starts_with(BY_KUBECTL) {
        true => "kubectl",
        false => MANAGER,
    };
    let query = format!("fieldManager={manager}&fieldValidation=Warn");
    match file {
        _ if file.starts_with("apply") => format!("{path}/{name}?{query}"),
        _ if file.starts_with("dry") => format!("{path}?{query}&dryRun=All"),
        _ => format!("{path}?{query}"),
    }
}

/// Returns the collection of an object's kind, and whether its objects have namespaces.
async fn collection(server: &impl Transport, object: &Value) -> Option<(String, bool)> {
    let version = object["apiVersion"].as_str()?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let path = format!("/{root}/{version}");
    let answer = server.send(request("GET", &path, "")).await;
    let listed: Value = serde_json::from_str(&answer.text().await).ok()?;
    let mut resources = listed["resources"].as_array()?.iter();
    let found = resources.find(|one| {
        let name = one["name"].as_str().unwrap_or_default();
        one["kind"] == object["kind"] && !name.contains('/')
    })?;
    let plural = found["name"].as_str()?;
    Some((format!("{path}/{plural}"), found["namespaced"] == true))
}

/// Waits until a definition is served. A kube-apiserver serves it some time after its create.
async fn served(server: &impl Transport, path: &str) {
    for _ in 0..LOOKS {
        let answer = server.send(request("GET", path, "")).await;
        let crd: Value = serde_json::from_str(&answer.text().await).unwrap_or_default();
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        let mut established = conditions.filter(|one| one["type"] == "Established");
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let mut object = versions.filter(|one| one["served"] == true).map(|one| {
            let version = one["name"].as_str().unwrap_or_default();
            let group = crd["spec"]["group"].as_str().unwrap_or_default();
            json!({"apiVersion": format!("{group}/{version}"), "kind": crd["spec"]["names"]["kind"]})
        });
        let object = object.next_back().unwrap_or_default();
        if established.any(|one| one["status"] == "True")
            && collection(server, &object).await.is_some()
        {
            return;
        }
        server.pass(BETWEEN).await;
    }
}

/// Returns an object without the metadata that each server chooses, and with a word in place of its uid elsewhere.
fn comparable(mut object: Value) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() {
        let text = object.to_string().replace(uid, "its-uid");
        object = serde_json::from_str(&text).unwrap();
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in [
            "uid", "resourceVersion", "creationTimestamp", "managedFields",
        ] {
            metadata.remove(name);
        }
    }
    object
}

/// Sends the manifests to embedded servers, one for each folder.
async fn report(folders: &[Folder], other: Option<&impl Transport>, record: bool) -> Report {
    let mut report = Report::default();
    for folder in folders {
        let server = ApiServer::builder().play_controllers(false).build();
        let got = send_all(&server, folder).await;
        let want = match other {
            Some(other) => send_all(other, folder).await,
            None if record => got.clone(),
            None => folder.recording.clone(),
        };
        if record {
            let text = serde_json::to_string_pretty(&want).unwrap_or_default();
            std::fs::write(folder.path.join(ANSWERS), text + "\n").unwrap();
        }
        report.add(folder, &want, &got);
    }
    report
}

#[test]
fn corpus() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    // Only `cargo xtask corpus` sets the variable.
    let Some(folder) = variable(FOLDER) else {
        return;
    };
    let folders = folders(Path::new(&folder)).unwrap_or_else(|problem| panic!("{problem}"));
    let record = variable(RECORD).is_some();
    let report = run_corpus(&folders, variable(AGAINST), record);
    say(&report.summary());
    let all: usize = report.classes.values().sum();
    assert_eq!(all, 0, "the number of differences");
    let compared = report.sent - report.unknown - report.existing;
    assert!(
        record || compared > 0,
        "nothing was compared: record answers with --record, or name a second server with --against"
    );
}

#[tokio::main(flavor = "current_thread")]
async fn run_corpus(folders: &[Folder], against: Option<String>, record: bool) -> Report {
    match against {
        None => report(folders, None::<&ApiServer>, record).await,
        Some(path) => {
            let config = configuration(Kubeconfig::read_from(path).unwrap()).await;
            let remote = Remote::new(config, None, run());
            report(folders, Some(&remote), record).await
        }
    }
}

/// Returns the folder of the corpus of this repository.
fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Returns the manifests that are known to be answered differently.
fn known() -> BTreeSet<String> {
    let text = std::fs::read_to_string(own().join("pending.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_corpus_is_answered_as_recorded() {
    let report = report(&folders(&own()).unwrap(), None::<&ApiServer>, false).await;
    assert_eq!(report.unknown, 0, "every manifest has a recorded answer");
    let known = known();
    let new: Vec<_> = report.differ.difference(&known).collect();
    assert!(new.is_empty(), "{new:?} differ\n{}", report.summary());
    let mended: Vec<_> = known.difference(&report.differ).collect();
    assert!(mended.is_empty(), "take {mended:?} out of pending.txt");
}

#[tokio::test(start_paused = true)]
async fn each_difference_is_reported_with_its_class() {
    let mut folders = folders(&own()).unwrap();
    let mut accepted = 0;
    for folder in &mut folders {
        let server = ApiServer::builder().play_controllers(false).build();
        folder.recording = send_all(&server, folder).await;
        for answer in folder.recording.values_mut() {
            let refused = answer.status >= 300;
            accepted += usize::from(!refused);
            answer.status = if refused { 201 } else { 422 };
        }
    }
    let report = report(&folders, None::<&ApiServer>, false).await;
    let count = |end: &str| -> usize {
        let all = report.classes.iter();
        let all = all.filter(|(class, _)| class.ends_with(end));
        all.map(|(_, count)| count).sum()
    };
    assert_eq!(count("accepted here only"), accepted);
    assert_eq!(count("refused here only"), report.sent - accepted);
    assert_eq!(report.differ.len(), report.sent);

    let object = json!({"kind": "K"});
    let want = Recorded {
        status: 201,
        warnings: "299".to_owned(),
        object: BTreeMap::from([
            ("/spec/a~1b".to_owned(), json!({"c": [1], "d": 2})),
            ("/spec/none".to_owned(), Value::Null),
        ]),
        ..Recorded::default()
    };
    let got = Recorded {
        status: 201,
        object: BTreeMap::from([(String::new(), json!({"spec": {"a/b": {"c": [2], "e": 1}}}))]),
        ..Recorded::default()
    };
    let found = compare("one.yaml", &object, &want, &got);
    let found: Vec<_> = found.iter().map(|one| (&*one.class, &*one.what)).collect();
    assert_eq!(
        found,
        [
            ("object: warnings", "expected 299\n    got "),
            (
                "object: /spec/a~1b",
                "/spec/a~1b/c: expected [1]\n    got [2]"
            ),
            (
                "object: /spec/a~1b",
                "/spec/a~1b/d: expected 2\n    got absent"
            ),
            (
                "object: /spec/a~1b",
                "/spec/a~1b/e: expected absent\n    got 1"
            ),
        ]
    );
}

/// A server that outlives the corpus holds nothing of it afterwards.
#[tokio::test(start_paused = true)]
async fn a_second_server_is_left_as_it_was() {
    let server = ApiServer::builder().play_controllers(false).build();
    let second = super::conformance::Shared::new(&server, 1);
    for _ in 0..2 {
        let report = report(&folders(&own()).unwrap(), Some(&second), false).await;
        assert!(report.classes.is_empty(), "\n{}", report.summary());
    }
    assert_eq!(
        server.list("customresourcedefinitions", ""),
        [Value::Null; 0]
    );
    assert_eq!(server.list("namespaces", "").len(), 4);
}
