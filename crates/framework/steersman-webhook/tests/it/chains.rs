//! Tests several handlers behind one path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use steersman_webhook::{
    AdmissionContext, AdmissionResponse, Defaulter, HandlerChain, Refusal, WebhookServer,
    defaulter_handler,
};

use crate::world::{Site, World, site};

struct Doubled;

impl Defaulter<Site> for Doubled {
    async fn default(&self, site: &mut Site, ctx: &AdmissionContext) -> Result<(), Refusal> {
        site.spec.replicas *= 2;
        ctx.warn(format!("now {}", site.spec.replicas));
        Ok(())
    }
}

fn handler(
    decide: impl Fn(&Value) -> AdmissionResponse + Send + Sync + 'static,
) -> impl steersman_webhook::AdmissionHandler {
    move |ctx: AdmissionContext| {
        let object = ctx.request().object.clone().unwrap_or_default();
        std::future::ready(decide(&object))
    }
}

#[tokio::test(start_paused = true)]
async fn each_handler_sees_the_changes_of_those_before_it() {
    let chain = HandlerChain::new()
        .then(defaulter_handler::<Site>(Doubled))
        .then(handler(|object| {
            let mut changed = object.clone();
            changed["spec"]["seen"] = object["spec"]["replicas"].clone();
            AdmissionResponse::patched_between(object, &changed).warning("seen")
        }))
        .then(defaulter_handler::<Site>(Doubled));
    let world = World::calling(&WebhookServer::new("0").handler("/mutate-all", chain));
    let made = world
        .create(&site("a", &json!({"host": "a", "replicas": 3})))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(
        made.body["spec"],
        json!({"host": "a", "replicas": 12, "seen": 6})
    );
    let warnings = ["299 - \"now 6\"", "299 - \"seen\"", "299 - \"now 12\""];
    assert_eq!(made.warnings, warnings);
}

#[tokio::test(start_paused = true)]
async fn the_first_refusal_is_the_response_and_no_later_handler_is_called() {
    let later = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&later);
    let chain = HandlerChain::new()
        .then(handler(|_| AdmissionResponse::allowed().warning("first")))
        .then(handler(|_| AdmissionResponse::denied("on purpose")))
        .then(handler(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            AdmissionResponse::allowed()
        }));
    let world = World::calling(&WebhookServer::new("0").handler("/validate-all", chain));
    let refused = world.create(&site("a", &json!({"host": "a"}))).await;
    assert_eq!(refused.code, 403);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("denied the request: on purpose"),
        "{message}"
    );
    assert_eq!(refused.warnings, ["299 - \"first\""]);
    assert_eq!(later.load(Ordering::Relaxed), 0);
}
