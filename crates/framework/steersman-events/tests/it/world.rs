//! Helpers: a server, and a publisher of Events with metrics.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use prometheus::Registry;
use steersman_api::{Api, ClientConfig, Paging};
use steersman_apiserver::ApiServer;
use steersman_events::{EventMetrics, EventPublisher, EventRecorder};
use steersman_object::ListOptions;
use steersman_testenv::eventually;

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) publisher: EventPublisher,
    pub(crate) recorder: EventRecorder,
    registry: Registry,
}

impl World {
    pub(crate) fn new() -> Self {
        let server = ApiServer::new();
        let client_config = ClientConfig::in_process(server.service(), "default");
        Self::over(server, client_config)
    }

    pub(crate) fn over(server: ApiServer, client_config: ClientConfig) -> Self {
        let registry = Registry::new();
        let metrics = EventMetrics::register(&registry).unwrap();
        let clock = server.clone();
        let publisher = EventPublisher::with(client_config, move || clock.now(), Some(metrics));
        Self {
            server,
            recorder: publisher.recorder("website"),
            publisher,
            registry,
        }
    }

    /// Returns the Events of a namespace, in the order of their creation.
    pub(crate) async fn events(&self, namespace: &str) -> Vec<Event> {
        let client_config = ClientConfig::in_process(self.server.service(), "default");
        let api = Api::<Event>::typed(client_config.client().unwrap());
        let list_options = ListOptions::new().namespace(namespace);
        let page = api.list_all(&list_options, &Paging::new()).await.unwrap();
        let mut events: Vec<Event> = page.into_good();
        events.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
        events
    }

    /// Waits until the Events in the namespace `default` satisfy `fit`.
    pub(crate) async fn until(&self, what: &str, fit: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        let fit = &fit;
        let found = eventually(what, || async move {
            let events = self.events("default").await;
            match fit(&events) {
                true => Ok(events),
                false => Err(format!("{events:?}")),
            }
        });
        found.await.unwrap()
    }

    pub(crate) async fn stop(&self) {
        self.publisher.stop(Duration::from_secs(2)).await;
    }

    /// Returns the value of a counter, summed over all series with this label value.
    pub(crate) fn counter(&self, name: &str, label: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let has = |metric: &&prometheus::proto::Metric| {
            metric.get_label().iter().any(|pair| pair.value() == label)
        };
        let values = metrics
            .iter()
            .filter(has)
            .map(|m| m.get_counter().get_value());
        values.map(|value| value as u64).sum()
    }

    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.counter("steersman_events_dropped_total", reason)
    }
}

pub(crate) fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.namespace = Some("default".to_owned());
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(format!("uid-of-{name}"));
    config
}
