//! Machine: parses the diagnostics and the metrics of an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_object::{json_items, json_text};

/// The diagnostics of an operator at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorSnapshot {
    pub(crate) kinds: Vec<KindRow>,
    pub(crate) controllers: Vec<ControllerRow>,
    /// The last reconciles of each controller, oldest first.
    pub(crate) reconciles: Vec<ReconcileRow>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindRow {
    /// The plural and the group of the kind, and the namespace if the informer is limited to one.
    pub(crate) name: String,
    /// The state of the informer, such as `synced`, or `fails: forbidden`.
    pub(crate) state: String,
    pub(crate) is_good: bool,
    /// The number of objects in all informers of the kind.
    pub(crate) objects: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControllerRow {
    pub(crate) name: String,
    pub(crate) ready: u64,
    pub(crate) running: u64,
    pub(crate) finished: u64,
    pub(crate) retries: u64,
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

const OBJECTS: &str = "steersman_informer_objects";
const RETRIES: &str = "workqueue_retries_total";

impl OperatorSnapshot {
    /// Parses the JSON of `/debug/steersman` and the text of `/metrics`. Skips missing fields.
    pub(crate) fn read(diagnostics: &Value, metrics: &str, now: Instant) -> Self {
        let objects = series(metrics, OBJECTS);
        let retries = series(metrics, RETRIES);
        let kinds = json_items(&diagnostics["informers"]);
        let controllers = json_items(&diagnostics["controllers"]);
        let reconciles = json_items(&diagnostics["reconciles"]);
        Self {
            kinds: kinds.map(|one| KindRow::read(one, &objects)).collect(),
            controllers: controllers
                .map(|one| ControllerRow::read(one, &retries))
                .collect(),
            reconciles: reconciles.map(|one| ReconcileRow::read(one, now)).collect(),
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

impl KindRow {
    fn read(informer: &Value, objects: &BTreeMap<String, u64>) -> Self {
        let kind = text(informer, "kind");
        let state = text(informer, "state");
        let problem = text(&informer["problem"], "reason");
        let is_good = problem.is_empty() && informer["hasSynced"] == true;
        Self {
            objects: objects.get(&text(informer, "name")).copied(),
            name: match informer["namespace"].as_str() {
                Some(namespace) => format!("{kind} in {namespace}"),
                None => kind,
            },
            state: match problem.is_empty() {
                true => state,
                false => format!("fails: {problem}"),
            },
            is_good,
        }
    }
}

impl ControllerRow {
    fn read(controller: &Value, retries: &BTreeMap<String, u64>) -> Self {
        let name = text(controller, "name");
        let work = &controller["work"];
        let number = |key: &str| work[key].as_u64().unwrap_or_default();
        let waiting = json_items(&controller["waitingFor"]).filter_map(Value::as_str);
        Self {
            ready: number("ready"),
            running: number("running"),
            finished: number("finished"),
            retries: retries.get(&name).copied().unwrap_or_default(),
            waiting_for: waiting.map(str::to_owned).collect(),
            name,
        }
    }
}

impl ReconcileRow {
    fn read(reconcile: &Value, now: Instant) -> Self {
        let duration = |key: &str| {
            let seconds = reconcile[key].as_f64().unwrap_or_default();
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        };
        Self {
            controller: text(reconcile, "controller"),
            id: reconcile["id"].as_u64().unwrap_or_default(),
            request: text(reconcile, "request"),
            reason: text(reconcile, "reason"),
            result: text(reconcile, "result"),
            message: text(reconcile, "message"),
            took: duration("seconds"),
            ended: now.checked_sub(duration("endedSecondsAgo")).unwrap_or(now),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.result == "success"
    }
}

fn text(value: &Value, key: &str) -> String {
    json_text(&value[key]).to_owned()
}

/// Returns the values of a metric by the value of the label `name`, summed over all other labels.
fn series(metrics: &str, metric: &str) -> BTreeMap<String, u64> {
    let begin = format!("{metric}{{");
    let mut found = BTreeMap::new();
    for line in metrics.lines() {
        let rest = line.strip_prefix(&*begin);
        let Some((labels, value)) = rest.and_then(|rest| rest.rsplit_once("} ")) else {
            continue;
        };
        let mut labels = labels.split("\",");
        let name = labels.find_map(|one| one.strip_prefix("name=\""));
        if let (Some(name), Ok(value)) = (name, value.trim().parse::<f64>()) {
            let name = name.trim_end_matches('"').to_owned();
            *found.entry(name).or_default() += value as u64;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn diagnostics_and_metrics_become_rows() {
        let diagnostics = json!({
            "informers": [
                {"kind": "greetings.example.com", "name": "Greeting.v1.example.com", "state": "synced", "hasSynced": true, "problem": null},
                {"kind": "configmaps", "namespace": "a", "state": "degraded", "hasSynced": true,
                 "problem": {"reason": "forbidden", "message": "no"}},
            ],
            "controllers": [{"name": "greeting", "waitingFor": [],
                "work": {"ready": 2, "running": 1, "finished": 7}}],
            "reconciles": [
                {"controller": "greeting", "id": 1, "request": "default/a", "reason": "retry 1",
                 "result": "error", "message": "no", "seconds": 0.25, "endedSecondsAgo": 1.0},
                {"controller": "greeting", "id": 2, "request": "default/b", "result": "error"},
                {"controller": "greeting", "id": 3, "request": "default/b", "result": "success"},
            ],
        });
        let metrics = "# HELP steersman_informer_objects x\n\
            steersman_informer_objects{name=\"Greeting.v1.example.com\",x=\"1\"} 2\n\
            steersman_informer_objects{x=\"2\",name=\"Greeting.v1.example.com\"} 1\n\
            workqueue_retries_total{controller=\"greeting\",name=\"greeting\"} 4\n";
        let begin = crate::dev::clock::now() + Duration::from_secs(60);
        let snapshot = OperatorSnapshot::read(&diagnostics, metrics, begin);
        let greetings = &snapshot.kinds[0];
        assert_eq!((greetings.objects, greetings.is_good), (Some(3), true));
        assert_eq!(snapshot.kinds[1].name, "configmaps in a");
        assert_eq!(snapshot.controllers[0].retries, 4);
        assert_eq!(snapshot.controllers[0].ready, 2);
        let first = &snapshot.reconciles[0];
        assert_eq!(first.took, Duration::from_millis(250));
        assert_eq!(first.ended, begin - Duration::from_secs(1));
        let problems = ["configmaps in a fails: forbidden", "greeting default/a"];
        assert_eq!(snapshot.problems(), problems.map(str::to_owned).into());
        // Empty diagnostics and an invalid metric give an empty snapshot.
        let empty = OperatorSnapshot::read(&Value::Null, "steersman_informer_objects{ 1", begin);
        assert_eq!(empty, OperatorSnapshot::default());
    }
}
