//! The walk of the guide's page about production: one installation with two versions, webhooks and two replicas as
//! processes, through what happens to them in a cluster.

mod site;
mod installation;

use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_testenv::apiserver::History;
use steersman_testenv::apiserver::faults::{Restart, Verb};
use steersman_testenv::json_lines;

use self::installation::{ACCOUNT, Installation, get};
use self::site::Site;
use crate::replica::Replica;

/// The refusal of the right that [`a_missing_right_to_write_delays_only_its_object`] takes away.
const NO_CREATE: &str = r#"cannot create resource "configmaps" in API group """#;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_is_silent_in_production() {
    let mut operator = Installation::new().await;
    both_versions_keep_all_fields(&mut operator).await;
    a_standby_follows_a_killed_leader(&mut operator).await;
    a_standby_follows_a_stopped_leader(&mut operator).await;
    one_replica_leads_after_an_outage(&mut operator).await;
    an_expired_certificate_is_shown(&mut operator).await;
    a_missing_right_to_write_delays_only_its_object(&mut operator).await;
    a_missing_right_to_read_is_named_until_it_is_granted(&mut operator).await;
    a_settled_operator_restarts_without_a_write(&mut operator).await;
    operator.nothing_is_lost().await;
    operator.stop_all().await;
    no_error_is_unexpected(&operator);
    no_right_of_the_page_is_missing(&operator);
}

async fn both_versions_keep_all_fields(operator: &mut Installation) {
    operator.start(&[]);
    operator.start(&[]);
    operator.leader().await;
    operator.ready().await;
    let old = Site::new("nginx:1.29", 2);
    operator.create("v1alpha1", "old", old.clone()).await;
    operator
        .create("v1", "new", old.on("www.example.com"))
        .await;
    operator.nothing_is_lost().await;
    // A client of the former version keeps the field that it does not know.
    operator
        .change("v1alpha1", "new", |site| site.replicas = 3)
        .await;
    operator
        .change("v1", "old", |site| site.host = Some("old.example.com"))
        .await;
    operator.nothing_is_lost().await;
}

async fn a_standby_follows_a_killed_leader(operator: &mut Installation) {
    let (at, killed) = operator.leader().await;
    operator.take(at).kill().await;
    // As its Deployment does.
    operator.start(&[]);
    operator
        .create("v1", "after-kill", Site::new("nginx:1.28", 1))
        .await;
    operator
        .change("v1alpha1", "old", |site| site.image = "nginx:1.28")
        .await;
    operator.nothing_is_lost().await;
    let (_, next) = operator.leader().await;
    assert_ne!(next, killed);
    operator.ready().await;
}

async fn a_standby_follows_a_stopped_leader(operator: &mut Installation) {
    let (at, stopped) = operator.leader().await;
    let mut leader = operator.take(at);
    let status = leader.terminate().await;
    assert!(status.success(), "{status}\n{}", leader.log());
    // The release was its last write, so the standby does not wait for the end of the Lease.
    assert_ne!(operator.holder(), stopped);
    operator.start(&[]);
    operator.change("v1", "old", |site| site.replicas = 1).await;
    operator.nothing_is_lost().await;
    operator.ready().await;
}

/// The leader ends after its renew deadline, as the page on leader election says, and the test starts it again.
async fn one_replica_leads_after_an_outage(operator: &mut Installation) {
    let (at, before) = operator.leader().await;
    operator.write_pages("new", "written before the outage");
    let outage = Restart::new(History::Kept).away(Duration::from_secs(20));
    operator.server().restart(outage);
    let mut leader = operator.take(at);
    let status = leader.ended().await;
    assert_eq!(status.code(), Some(1), "{}", leader.log());
    // As a kubelet does.
    operator.start(&[]);
    // The first request that is answered is this one.
    operator
        .change("v1alpha1", "new", |site| site.replicas = 1)
        .await;
    operator.write_pages("old", "written after the outage");
    operator
        .create("v1alpha1", "after-outage", Site::new("nginx:1.29", 2))
        .await;
    operator.delete("after-kill").await;
    operator.nothing_is_lost().await;
    let (_, next) = operator.leader().await;
    assert_ne!(next, before);
    operator.ready().await;
}

/// A third replica gets its certificate from files, and keeps to them: it stands by, and the Service does not lead to it.
async fn an_expired_certificate_is_shown(operator: &mut Installation) {
    operator.write_certificate(2002);
    operator.start(&["--webhook-cert-path=certificates"]);
    let replica = operator.replicas.last().unwrap();
    operator
        .until("the certificate is named", || async {
            let (status, checks) = get(replica.address("health-probe"), "/readyz").await?;
            let is_probed = status == 500 && checks.contains("[-]webhook failed");
            let log = json_lines(&replica.log())?;
            match is_probed && log.iter().any(is_expiry) {
                true => Ok(()),
                false => Err(checks),
            }
        })
        .await;
    let end = "steersman_certificate_not_after_timestamp_seconds";
    let end = operator.metric(replica, end).await;
    assert_eq!(end, Ok(1_009_843_200.0), "2002-01-01");
    // Its issuer writes another one.
    operator.write_certificate(2400);
    operator.ready().await;
    let mut replica = operator.take(operator.replicas.len() - 1);
    let status = replica.terminate().await;
    assert!(status.success(), "{status}\n{}", replica.log());
}

async fn a_missing_right_to_write_delays_only_its_object(operator: &mut Installation) {
    let whole = operator.change_role(|rules| {
        let rule = rules
            .iter_mut()
            .find(|rule| rule["resources"] == json!(["configmaps", "services"]));
        let verbs = rule.unwrap()["verbs"].as_array_mut().unwrap();
        verbs.retain(|verb| verb != "create");
    });
    operator
        .change("v1", "old", |site| site.image = "nginx:1.29")
        .await;
    operator.nothing_is_lost().await;
    operator
        .create("v1alpha1", "refused", Site::new("nginx:1.29", 1))
        .await;
    let (at, _) = operator.leader().await;
    let leader = &operator.replicas[at];
    operator
        .until("the right is named", || async {
            let log = json_lines(&leader.log())?;
            let mut of_object = log
                .iter()
                .filter(|line| line.get("name") == Some(&json!("refused")));
            let named = of_object.any(is_refusal);
            named.then_some(()).ok_or_else(String::new)
        })
        .await;
    operator.change("v1", "old", |site| site.replicas = 2).await;
    let old = &operator.sites["old"];
    operator
        .until("another website is served", || {
            old.check(operator.server(), "old")
        })
        .await;
    operator.change_role(|rules| *rules = whole.clone());
    operator.nothing_is_lost().await;
}

async fn a_missing_right_to_read_is_named_until_it_is_granted(operator: &mut Installation) {
    operator.stop_all().await;
    let whole = operator.change_role(|rules| {
        rules.retain(|rule| rule["resources"] != json!(["deployments"]));
    });
    operator.start(&["--preflight"]);
    operator.start(&["--preflight"]);
    let (at, _) = operator.leader().await;
    for replica in &operator.replicas {
        operator
            .until("the right is named", || async {
                let (status, checks) = get(replica.address("health-probe"), "/readyz").await?;
                let probe = status == 500 && checks.contains("deployments.apps: forbidden");
                let preflight = replica
                    .log()
                    .contains("not allowed: get, list, watch deployments.apps");
                match probe && preflight {
                    true => Ok(()),
                    false => Err(checks),
                }
            })
            .await;
        assert!(
            get(replica.address("health-probe"), "/livez")
                .await
                .unwrap()
                .0
                == 200
        );
    }
    let leader = &operator.replicas[at];
    let waiting = operator
        .metric(leader, "steersman_controller_waiting")
        .await;
    assert_eq!(waiting, Ok(1.0));
    // The webhooks go on.
    operator
        .change("v1alpha1", "old", |site| site.replicas = 1)
        .await;
    operator.change_role(|rules| *rules = whole.clone());
    operator.nothing_is_lost().await;
    operator.ready().await;
}

async fn a_settled_operator_restarts_without_a_write(operator: &mut Installation) {
    operator.stop_all().await;
    let before = operator.server().requests().all().len();
    operator.start(&[]);
    operator.start(&[]);
    let (at, _) = operator.leader().await;
    operator.ready().await;
    is_idle(operator, &operator.replicas[at]).await;
    operator.stop_all().await;
    let requests = operator.server().requests().all();
    let written = requests[before..].iter().filter(|request| {
        let is_read = matches!(
            request.verb,
            None | Some(Verb::Get | Verb::List | Verb::Watch)
        );
        !is_read && request.user == ACCOUNT && !["leases", "events"].contains(&&*request.resource)
    });
    let written: Vec<_> = written.map(ToString::to_string).collect();
    assert!(written.is_empty(), "{written:#?}");
    operator.start(&[]);
    operator.start(&[]);
}

/// Waits until the leader has reconciled every website and has nothing to do.
async fn is_idle(operator: &Installation, leader: &Replica) {
    let websites = u32::try_from(operator.sites.len()).unwrap();
    operator
        .until("every website was reconciled", || async {
            let metric = |name| operator.metric(leader, name);
            let reconciles = metric("controller_runtime_reconcile_total").await?;
            let busy = metric("controller_runtime_active_workers").await?
                + metric("workqueue_depth").await?;
            match reconciles >= websites.into() && busy == 0.0 {
                true => Ok(()),
                false => Err(format!("{reconciles} reconciles, {busy} run or wait")),
            }
        })
        .await;
}

/// Checks that each error of the logs is one that the walk causes, and that each of these was logged.
fn no_error_is_unexpected(operator: &Installation) {
    let mut lines = operator.lines();
    lines.retain(|line| line["level"] == "error");
    assert!(lines.iter().any(is_expiry) && lines.iter().any(is_refusal));
    lines.retain(|line| !is_expiry(line) && !is_refusal(line) && !is_of_outage(line));
    let mut messages: Vec<_> = lines
        .iter()
        .map(|line| line["msg"].as_str().unwrap())
        .collect();
    messages.sort_unstable();
    // Those of the outage: the leader ends by design.
    let expected = [
        "the program ends with an error",
        "this replica lost the lease: its work stops",
    ];
    assert_eq!(messages, expected, "{lines:#?}");
}

/// Returns whether a line says that the certificate has expired.
fn is_expiry(line: &Map<String, Value>) -> bool {
    let text = Value::from(line.clone()).to_string();
    line["level"] == "error" && text.contains("expired at 2002-01-01")
}

/// Returns whether a line says that a ConfigMap may not be created.
fn is_refusal(line: &Map<String, Value>) -> bool {
    let error = line.get("error").and_then(Value::as_str);
    line["level"] == "error" && error.is_some_and(|error| error.contains(NO_CREATE))
}

/// Returns whether a line says that the outage made a reconcile fail, which is repeated.
fn is_of_outage(line: &Map<String, Value>) -> bool {
    let error = line.get("error").and_then(Value::as_str);
    line["msg"] == "reconcile failed"
        && error.is_some_and(|error| error.contains("cannot be reached"))
}

/// Checks that the server refused what the walk took away, and nothing else.
fn no_right_of_the_page_is_missing(operator: &Installation) {
    // A child is created with an apply.
    let taken_away = [
        ("configmaps", Some(Verb::Patch)),
        ("services", Some(Verb::Patch)),
        ("deployments", None),
    ];
    let unexpected = operator.server().requests().matching(|request| {
        let is_expected = taken_away.iter().any(|(resource, verb)| {
            request.resource == *resource && (verb.is_none() || request.verb == *verb)
        });
        request.user == ACCOUNT && request.status == Some(403) && !is_expected
    });
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}
