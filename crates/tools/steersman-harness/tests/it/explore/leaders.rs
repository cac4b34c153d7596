//! Bugs that two leaders show.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use steersman_controller::Context;
use steersman_object::{ListOptions, Object as _};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, create_once, operator, scenario,
    widget,
};

/// Creates one child. Planted: its name is generated, so that the create of a former leader makes a second child.
struct GeneratedChild(Form);

impl WidgetOperator for GeneratedChild {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key) = (ctx.client(), widget.key());
        if self.0.is_mended() {
            return create_once(client, &config_map(&key.sibling("a-child"), "of", "a")).await;
        }
        let children = client
            .live()
            .list::<ConfigMap>(&ListOptions::new().namespace("default"))
            .await?;
        let is_child = |one: &ConfigMap| one.metadata.generate_name.as_deref() == Some("a-");
        if !children.iter().any(is_child) {
            let mut child = config_map(&key, "of", "a");
            (child.metadata.name, child.metadata.generate_name) = (None, Some("a-".to_owned()));
            client.create(&child).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_create_that_arrives_after_the_lease_is_lost_makes_a_second_child() {
    let scenario = || {
        scenario("generated child")
            .replicas(2)
            .patience(Duration::from_secs(60))
            .apply(widget(json!({"size": 1})))
            .quiet()
    };
    let operator = |form| operator(move || GeneratedChild(form));
    check(("two-leaders", "wrong-state"), scenario, operator).await;
}
