//! The reports of failed waits.

use std::future::ready;
use std::time::Duration;

use serde_json::json;
use steersman_testenv::{TestEnv, log};

use crate::environments::create;

#[tokio::test(start_paused = true)]
async fn the_report_of_a_failed_wait_contains_requests_objects_and_reconciles() {
    let _log = log::capture();
    let env = TestEnv::in_process();
    let registry = prometheus::Registry::new();
    let options = prometheus::Opts::new("controller_runtime_reconcile_total", "help");
    let total = prometheus::CounterVec::new(options, &["controller", "result"]).unwrap();
    registry.register(Box::new(total.clone())).unwrap();
    total.with_label_values(&["site", "error"]).inc();
    env.observe(registry);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "home"}});
    let client = env.client().unwrap();
    create(&client, "/api/v1/namespaces/default/configmaps", &object)
        .await
        .unwrap();
    let span = tracing::error_span!(
        "reconcile",
        controller = "site",
        namespace = "default",
        name = "home"
    );
    span.in_scope(|| tracing::error!(error = "no pages", "reconcile failed"));
    drop(span);

    let expectation = env.expect("the site").within(Duration::from_secs(30));
    let unmet = expectation
        .eventually(|| ready(Err::<(), _>("no site".to_owned())))
        .await
        .unwrap_err();
    let text = format!("{unmet:?}");
    for wanted in [
        "the site did not come true within 30s; last seen: no site\n",
        "requests to the server (the last 1 of 1, newest last):\n",
        "   201  create configmaps default/home  (",
        "\nconfigmaps: 1\n  default/home, version ",
        "\ncontrollers, by their spans:\n  site: 1 reconciles, 1 of them failed\n",
        ": reconcile failed: no pages\n",
        "\ncontrollers, by their metrics:\n  site: 1 error\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} in:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn named_kinds_are_shown_and_unavailable_ones_with_their_error() {
    let env = TestEnv::in_process();
    let expectation = env
        .expect("peace")
        .about_in("kube-system", "deployments.apps")
        .about("sites.example.com");
    let unmet = expectation
        .consistently(Duration::ZERO, || ready(Err::<(), _>("war".to_owned())))
        .await
        .unwrap_err();
    let text = unmet.to_string();
    assert!(
        text.starts_with("peace stopped being true after 0ns; seen: war\n"),
        "{text}"
    );
    assert!(text.contains("requests to the server: none\n"), "{text}");
    assert!(text.contains("\ndeployments.apps: 0\n"), "{text}");
    assert!(text.contains("\nsites.example.com: "), "{text}");
    let minute = Duration::from_secs(60);
    let quiet = env
        .expect("war")
        .never(minute, || ready(Err::<(), _>(String::new())));
    quiet.await.unwrap();
}
