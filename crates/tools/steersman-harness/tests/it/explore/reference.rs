//! Bugs that an undisturbed run shows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::Patch;
use steersman_controller::Context;
use steersman_object::Object as _;

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, create_once, data, ensure, key,
    operator, scenario, set_phase, widget,
};

/// Writes a status. Planted: it has the number of the attempt, so that each write causes the next one.
struct RestlessStatus(Form);

impl WidgetOperator for RestlessStatus {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        match self.0 {
            Form::Planted => {
                let phase = format!("Ready since reconcile {}", ctx.reconcile_id());
                set_phase(ctx.client(), &widget, &phase).await
            }
            Form::Mended => set_phase(ctx.client(), &widget, "Ready").await,
        }
    }
}

#[tokio::test]
async fn a_status_that_changes_with_each_write_never_becomes_quiet() {
    let scenario = || {
        scenario("restless status")
            .patience(tokio::time::Duration::from_secs(3))
            .apply(widget(json!({"size": 1})))
    };
    let operator = |form| operator(move || RestlessStatus(form));
    check(("reference", "not-quiet"), scenario, operator).await;
}

/// Keeps a child with the size of its widget. Planted: it only creates the child.
struct IgnoredChange(Form);

impl WidgetOperator for IgnoredChange {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, size) = (ctx.client(), widget.spec.size);
        match self.0 {
            Form::Planted => create_once(client, &config_map(&widget.key(), "size", size)).await,
            Form::Mended => ensure(client, &widget.key(), "size", size).await,
        }
    }
}

#[tokio::test]
async fn a_change_of_a_property_that_is_ignored_breaks_a_rule() {
    let scenario = || {
        scenario("ignored change")
            .apply(widget(json!({"size": 1})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
            .finally(
                "the child has the size",
                "objects.exists(c, c.kind == 'ConfigMap' && c.data.size == '2')",
            )
    };
    let operator = |form| operator(move || IgnoredChange(form));
    check(("reference", "broken-rule"), scenario, operator).await;
}

/// Keeps a child with the color of its widget. Planted: it sets colors, and removes none.
struct KeptColor(Form);

impl WidgetOperator for KeptColor {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key) = (ctx.client(), widget.key());
        let color = widget.spec.color.as_ref();
        let Some(child) = client.get_opt::<ConfigMap>(&key).await? else {
            let mut child = config_map(&key, "size", widget.spec.size);
            let all = child.data.get_or_insert_default();
            all.extend(color.iter().flat_map(|color| data("color", color)));
            return create_once(client, &child).await;
        };
        let found = child.data.as_ref().and_then(|data| data.get("color"));
        if found != color && (color.is_some() || self.0.is_mended()) {
            let patch = Patch::Merge(json!({"data": {"color": color}}));
            client.patch::<ConfigMap>(&key, &patch).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_removed_property_that_is_not_undone_breaks_a_rule() {
    let scenario = || {
        // The operator looks at the color alone once the child exists.
        scenario("kept color")
            .never_change("Widget", "spec.size")
            .apply(widget(json!({"color": "red"})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"color": null}}))
            .finally(
                "the child has no color",
                "objects.all(c, c.kind != 'ConfigMap' || !has(c.data.color))",
            )
    };
    let operator = |form| operator(move || KeptColor(form));
    check(("reference", "broken-rule"), scenario, operator).await;
}
