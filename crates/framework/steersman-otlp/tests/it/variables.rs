//! Tests an export that the variables of OpenTelemetry configure.

use std::ffi::OsString;
use std::time::Duration;

use steersman_otlp::OtlpOptions;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::collector::Collector;

#[tokio::test]
async fn the_variables_name_the_collector_its_headers_and_the_service() {
    let collector = Collector::start().await;
    let endpoint = format!("{}/own/path", collector.endpoint);
    let variable = |name: &str| {
        let value = match name {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" => &endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS" => "authorization=Bearer%20secret",
            "OTEL_SERVICE_NAME" => "named",
            "OTEL_RESOURCE_ATTRIBUTES" => "k8s.namespace.name=web",
            _ => return None,
        };
        Some(OsString::from(value))
    };
    let traces = OtlpOptions::new("greeter").start_with(variable).unwrap();
    let traces = traces.unwrap();
    assert_eq!(traces.collector(), collector.endpoint);
    let subscriber = tracing_subscriber::registry().with(traces.layer());
    tracing::subscriber::with_default(subscriber, || {
        let work = tracing::info_span!("work");
        work.in_scope(|| {
            tracing::info!("visible");
            tracing::debug!("not visible");
            tracing::debug_span!("not visible").in_scope(|| {});
        });
    });
    traces.shutdown(Duration::from_secs(5)).await;
    assert_eq!(collector.paths(), ["/own/path"]);
    assert_eq!(collector.tokens(), [Some("Bearer secret".to_owned())]);
    let resource = collector.resource();
    let (service, namespace) = (&resource["service.name"], &resource["k8s.namespace.name"]);
    assert_eq!((&**service, &**namespace), ("named", "web"));
    let spans = collector.spans();
    let [span] = &spans[..] else {
        panic!("one span: {spans:#?}");
    };
    assert_eq!(
        (&*span.name, &span.events[..]),
        ("work", &[("visible".to_owned(), None)][..])
    );
}

#[test]
fn nothing_is_started_without_a_collector() {
    let traces = OtlpOptions::new("greeter").start_with(|_| None).unwrap();
    assert!(traces.is_none());
}
