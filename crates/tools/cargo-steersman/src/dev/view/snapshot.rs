//! Machine: reads what an operator does from the views of its debug page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_object::{json_items, json_text};

use crate::dev::page_source::PageViews;

/// What an operator does at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorSnapshot {
    /// Its role among the replicas, and its stage.
    pub(crate) role: String,
    /// What needs attention, the most urgent first.
    pub(crate) attention: Vec<AttentionRow>,
    pub(crate) kinds: Vec<KindRow>,
    pub(crate) controllers: Vec<ControllerRow>,
    /// The last reconciles of each controller, oldest first.
    pub(crate) reconciles: Vec<ReconcileRow>,
}

/// Something that keeps the operator from its work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttentionRow {
    /// What it is about; the title of the same subject changes with time.
    pub(crate) subject: String,
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) remedy: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindRow {
    /// The kind, and the namespace if the informer is limited to one.
    pub(crate) name: String,
    /// The state of the informer, such as `synced`, or `fails: forbidden`.
    pub(crate) state: String,
    pub(crate) is_good: bool,
    pub(crate) objects: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControllerRow {
    pub(crate) name: String,
    pub(crate) ready: u64,
    pub(crate) running: u64,
    pub(crate) delayed: u64,
    pub(crate) finished: u64,
    /// The kinds that the controller waits for, with the reason.
    pub(crate) waiting_for: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReconcileRow {
    pub(crate) controller: String,
    pub(crate) id: u64,
    pub(crate) request: String,
    pub(crate) reason: String,
    /// The result of the reconcile: `success`, `error`, `panic` or `timeout`.
    pub(crate) result: String,
    pub(crate) message: String,
    pub(crate) took: Duration,
    pub(crate) ended: Instant,
}

impl OperatorSnapshot {
    /// Reads the views of a debug page. Skips missing fields.
    pub(crate) fn read(views: &PageViews, now: Instant) -> Self {
        let overview = &views.overview;
        let attention = json_items(&overview["attention"]);
        let kinds = json_items(&views.caches["caches"]["items"]);
        let controllers = json_items(&overview["controllers"]["items"]);
        let reconciles = views.controllers.iter().flat_map(|(name, view)| {
            let mut rows: Vec<_> = json_items(&view["recent"])
                .map(|one| ReconcileRow::read(name, one, now))
                .collect();
            rows.reverse();
            rows
        });
        Self {
            role: role(overview),
            attention: attention.map(AttentionRow::read).collect(),
            kinds: kinds.map(KindRow::read).collect(),
            controllers: controllers.map(ControllerRow::read).collect(),
            reconciles: reconciles.collect(),
        }
    }

    /// Returns the failing informers, and the requests with a failed last reconcile.
    pub(crate) fn problems(&self) -> BTreeSet<String> {
        let mut last: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for one in &self.reconciles {
            last.insert((&one.controller, &one.request), one.is_good());
        }
        let failing = last.into_iter().filter(|(_, is_good)| !is_good);
        let failing = failing.map(|((controller, request), _)| format!("{controller} {request}"));
        let kinds = self.kinds.iter().filter(|kind| !kind.is_good);
        let kinds = kinds.map(|kind| format!("{} {}", kind.name, kind.state));
        kinds.chain(failing).collect()
    }
}

/// Returns the role of a replica and its stage, such as `leads, started`.
pub(crate) fn role(overview: &Value) -> String {
    let role = match overview["isLeader"].as_bool() {
        Some(true) => "leads",
        Some(false) => "stands by",
        None => "works",
    };
    match overview["stage"].as_str() {
        Some(stage) => format!("{role}, {stage}"),
        None => String::new(),
    }
}

impl AttentionRow {
    fn read(item: &Value) -> Self {
        Self {
            subject: format!(
                "{} {}",
                json_text(&item["link"]),
                json_text(&item["title"]).replace(|one: char| one.is_ascii_digit(), "")
            ),
            title: text(item, "title"),
            detail: text(item, "detail"),
            remedy: item["remedy"].as_str().map(str::to_owned),
        }
    }
}

impl KindRow {
    fn read(cache: &Value) -> Self {
        let kind = text(cache, "kind");
        let problem = text(&cache["problem"], "reason");
        let is_good = problem.is_empty() && cache["hasSynced"] == true;
        Self {
            objects: cache["objects"].as_u64().unwrap_or_default(),
            name: match cache["namespace"].as_str() {
                Some(namespace) => format!("{kind} in {namespace}"),
                None => kind,
            },
            state: match problem.is_empty() {
                true => text(cache, "state"),
                false => format!("fails: {problem}"),
            },
            is_good,
        }
    }
}

impl ControllerRow {
    fn read(row: &Value) -> Self {
        let number = |key: &str| row[key].as_u64().unwrap_or_default();
        let waiting = json_items(&row["waitingFor"]).filter_map(Value::as_str);
        Self {
            name: text(row, "name"),
            ready: number("ready"),
            running: number("running"),
            delayed: number("delayed"),
            finished: number("finished"),
            waiting_for: waiting.map(str::to_owned).collect(),
        }
    }
}

impl ReconcileRow {
    fn read(controller: &str, reconcile: &Value, now: Instant) -> Self {
        let duration = |key: &str| {
            let seconds = reconcile[key].as_f64().unwrap_or_default();
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        };
        Self {
            controller: controller.to_owned(),
            id: reconcile["id"].as_u64().unwrap_or_default(),
            request: text(reconcile, "request"),
            reason: text(reconcile, "reason"),
            result: text(reconcile, "result"),
            message: text(reconcile, "message"),
            took: duration("seconds"),
            ended: now.checked_sub(duration("endedAgo")).unwrap_or(now),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.result == "success"
    }
}

fn text(value: &Value, key: &str) -> String {
    json_text(&value[key]).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_views_of_a_page_become_rows() {
        let views = PageViews {
            overview: json!({
                "attention": [{"title": "shops has failed", "detail": "why", "remedy": null, "link": "object?key=a"}],
                "controllers": {"items": [{"name": "greeting", "waitingFor": ["a kind"], "ready": 2, "running": 1,
                    "delayed": 4, "finished": 7}]},
            }),
            caches: json!({"caches": {"items": [
                {"kind": "Greeting.v1.example.com", "state": "synced", "hasSynced": true, "objects": 3, "problem": null},
                {"kind": "ConfigMap.v1", "namespace": "a", "state": "degraded", "hasSynced": true, "objects": 0,
                 "problem": {"reason": "forbidden", "message": "no"}},
            ]}}),
            controllers: [("greeting".to_owned(), json!({"recent": [
                {"id": 3, "request": "default/b", "result": "success"},
                {"id": 2, "request": "default/b", "result": "error"},
                {"id": 1, "request": "default/a", "reason": "retry 1", "result": "error", "message": "no",
                 "seconds": 0.25, "endedAgo": 1.0},
            ]}))]
            .into(),
            ..PageViews::default()
        };
        let begin = crate::dev::clock::now() + Duration::from_secs(60);
        let snapshot = OperatorSnapshot::read(&views, begin);
        let greetings = &snapshot.kinds[0];
        assert_eq!((greetings.objects, greetings.is_good), (3, true));
        assert_eq!(snapshot.kinds[1].name, "ConfigMap.v1 in a");
        let controller = &snapshot.controllers[0];
        assert_eq!((controller.ready, controller.delayed), (2, 4));
        assert_eq!(controller.waiting_for, ["a kind"]);
        assert_eq!(snapshot.attention[0].title, "shops has failed");
        let first = &snapshot.reconciles[0];
        assert_eq!((first.id, first.took), (1, Duration::from_millis(250)));
        assert_eq!(first.ended, begin - Duration::from_secs(1));
        let problems = ["ConfigMap.v1 in a fails: forbidden", "greeting default/a"];
        assert_eq!(snapshot.problems(), problems.map(str::to_owned).into());
        let empty = OperatorSnapshot::read(&PageViews::default(), begin);
        assert_eq!(empty, OperatorSnapshot::default());
    }
}
