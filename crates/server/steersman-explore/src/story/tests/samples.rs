//! The findings and events that tests of stories and reports use.

use std::time::Duration;

use serde_json::{Value, json};

use crate::finding::{ComparedState, Finding, Problem, StateDifference};
use crate::object_id::ObjectId;
use crate::request::{OperatorRequest, RequestVerb};
use crate::scenario::Step;
use crate::world_event::{ObjectChange, WorldEvent, WorldEventKind};

/// The value of a Secret in [`secret_finding`], and its base64.
pub(crate) const SECRET_VALUE: &str = "hunter2hunter2";
pub(crate) const SECRET_BASE64: &str = "aHVudGVyMmh1bnRlcjI=";

pub(crate) fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn request(verb: RequestVerb, resource: &str, name: Option<&str>) -> OperatorRequest {
    OperatorRequest {
        sequence: 1,
        process: 1,
        verb,
        resource: resource.to_owned(),
        subresource: None,
        namespace: Some("shop".to_owned()),
        name: name.map(str::to_owned),
        is_dry_run: false,
        may_be_stale: false,
        is_streaming_list: false,
    }
}

pub(crate) fn event(millis: u64, what: WorldEventKind) -> WorldEvent {
    let at = Duration::from_millis(millis);
    WorldEvent { at, what }
}

pub(crate) fn read(
    millis: u64,
    verb: RequestVerb,
    resource: &str,
    name: Option<&str>,
    code: u16,
) -> WorldEvent {
    let request = request(verb, resource, name);
    event(
        millis,
        WorldEventKind::Read {
            request,
            code: Some(code),
        },
    )
}

pub(crate) fn write(
    millis: u64,
    number: usize,
    (verb, resource, name): (RequestVerb, &str, &str),
    code: Option<u16>,
    change: Option<ObjectChange>,
) -> WorldEvent {
    let number = Some(number);
    let request = request(verb, resource, Some(name));
    event(
        millis,
        WorldEventKind::Wrote {
            request,
            number,
            code,
            change,
        },
    )
}

pub(crate) fn change(
    kind: &str,
    name: &str,
    before: Option<Value>,
    after: Option<Value>,
) -> Option<ObjectChange> {
    let id = id(kind, name);
    Some(ObjectChange { id, before, after })
}

pub(crate) fn config_map(replicas: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"index": "<h1>", "pages": replicas, "theme": "plain", "title": "Shop"},
        "metadata": {"name": "pages", "namespace": "shop", "resourceVersion": version, "managedFields": [{"manager": "a"}]},
    })
}

/// A write of the ConfigMap, from and to a number of pages and a version.
pub(crate) fn map_write(
    millis: u64,
    number: usize,
    before: Option<(&str, &str)>,
    after: (&str, &str),
) -> WorldEvent {
    let (verb, code) = match before {
        None => (RequestVerb::Create, 201),
        Some(_) => (RequestVerb::Update, 200),
    };
    let object = |(pages, version): (&str, &str)| config_map(pages, version);
    let change = change(
        "ConfigMap",
        "pages",
        before.map(object),
        Some(object(after)),
    );
    write(
        millis,
        number,
        (verb, "configmaps", "pages"),
        Some(code),
        change,
    )
}

pub(crate) fn lost_answer_events() -> Vec<WorldEvent> {
    let applied = "applies site.yaml: Site shop/pages".to_owned();
    let perturbed = "write 2 is carried out, and the operator is told 504".to_owned();
    let exited = WorldEventKind::Exited {
        process: 1,
        how: "exit code 1".to_owned(),
        output: vec![
            "\u{1b}[31mERROR\u{1b}[0m cannot update".to_owned(),
            "goodbye".to_owned(),
        ],
    };
    let site = |millis| {
        read(
            millis,
            RequestVerb::Get,
            "sites.example.com",
            Some("pages"),
            200,
        )
    };
    vec![
        event(0, WorldEventKind::Started { process: 1 }),
        read(120, RequestVerb::List, "sites.example.com", None, 200),
        read(121, RequestVerb::Watch, "sites.example.com", None, 200),
        event(400, WorldEventKind::User(applied)),
        read(410, RequestVerb::Get, "configmaps", Some("pages"), 404),
        map_write(420, 1, None, ("1", "4")),
        site(430),
        site(431),
        site(432),
        map_write(1204, 2, Some(("1", "4")), ("2", "5")),
        event(1204, WorldEventKind::Perturbed(perturbed)),
        map_write(1310, 3, Some(("2", "5")), ("1", "6")),
        event(1400, exited),
        event(1500, WorldEventKind::Started { process: 2 }),
        event(4000, WorldEventKind::Quiet),
    ]
}

/// A lost answer, after which a password is made again.
pub(crate) fn lost_answer() -> Finding {
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"namespace": "shop", "name": "pages"}});
    Finding {
        change: None,
        perturbations: vec!["lost-answer@2".parse().unwrap()],
        problem: wrong_state(vec![
            StateDifference {
                object: id("ConfigMap", "pages"),
                expected: Some(config_map("2", "<varies>")),
                found: Some(config_map("1", "<varies>")),
            },
            StateDifference {
                object: id("Service", "pages"),
                expected: Some(
                    json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
                ),
                found: None,
            },
        ]),
        steps: vec![
            Step::Apply {
                source: "site.yaml".to_owned(),
                objects: vec![site],
            },
            Step::Quiet,
        ],
        tries: 3,
        repeated: 3,
        events: lost_answer_events(),
        also: vec!["crash-after-write@2".to_owned(), "refuse@3:500".to_owned()],
    }
}

/// A finding with the value of a Secret wherever a value can be.
pub(crate) fn secret_finding() -> Finding {
    let secret = |value: &str| {
        let annotation = format!("{{\"stringData\":{{\"password\":\"{SECRET_VALUE}\"}}}}");
        json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"password": value}, "stringData": {"again": SECRET_VALUE},
            "metadata": {"name": "db", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": annotation}},
        })
    };
    let changed = "b3RoZXJvdGhlcm90aGVy";
    let step = Step::Merge {
        api_version: "v1".to_owned(),
        object: id("Secret", "db"),
        patch: json!({"stringData": {"password": SECRET_VALUE, "short": "s3cr\"t"}}),
    };
    let text = format!("the password is {SECRET_VALUE} or {SECRET_BASE64}");
    Finding {
        change: None,
        perturbations: vec!["stale-restart@1:2".parse().unwrap()],
        problem: Problem::ChangedConstant {
            object: id("Secret", "db"),
            field: "data.password".to_owned(),
            before: json!(SECRET_BASE64),
            after: json!(changed),
        },
        steps: vec![
            Step::Apply {
                source: "db.yaml".to_owned(),
                objects: vec![secret(SECRET_BASE64)],
            },
            step.clone(),
        ],
        tries: 3,
        repeated: 1,
        events: vec![
            event(0, WorldEventKind::User(step.to_string())),
            write(
                10,
                1,
                (RequestVerb::Create, "secrets", "db"),
                Some(201),
                change("Secret", "db", None, Some(secret(SECRET_BASE64))),
            ),
            event(
                11,
                WorldEventKind::Perturbed("the operator is killed after write 1".to_owned()),
            ),
            write(
                20,
                2,
                (RequestVerb::Update, "secrets", "db"),
                Some(200),
                change(
                    "Secret",
                    "db",
                    Some(secret(SECRET_BASE64)),
                    Some(secret(changed)),
                ),
            ),
            event(
                30,
                WorldEventKind::Exited {
                    process: 1,
                    how: text.clone(),
                    output: vec![text],
                },
            ),
        ],
        also: Vec::new(),
    }
}

/// The finding with another problem.
pub(crate) fn wrong_state(differences: Vec<StateDifference>) -> Problem {
    Problem::WrongState {
        quiet_step: None,
        than: ComparedState::Undisturbed,
        differences,
    }
}

pub(crate) fn with_problem(problem: Problem) -> Finding {
    Finding {
        problem,
        ..lost_answer()
    }
}
