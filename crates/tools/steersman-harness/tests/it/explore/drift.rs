//! Bugs that let a change of a user stay.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_controller::{Context, Controller};
use steersman_harness::OperatorTest;
use steersman_manager::Manager;
use steersman_object::Object as _;

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, create_once, ensure, existing, key,
    operator, scenario, set_phase, widget,
};
use crate::BoxError;

/// Keeps a child as its widget says. Planted: it looks at no child of a generation that it has seen.
struct SeenGeneration(Form);

impl WidgetOperator for SeenGeneration {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let seen = widget.status.as_ref().and_then(|status| status.count);
        if !self.0.is_mended() && seen == widget.metadata.generation {
            return Ok(());
        }
        ensure(client, &widget.key(), "size", widget.spec.size).await?;
        let generation = widget.metadata.generation;
        let set = |widget: &mut Widget| {
            widget.status.get_or_insert_default().count = generation;
        };
        client.status().modify(&widget, set).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_generation_that_was_seen_hides_the_edit_of_a_child() {
    let scenario = || {
        // The status has the number of generations, which no other state undoes.
        scenario("seen generation")
            .never_change("Widget", "spec")
            .apply(widget(json!({"size": 1})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
    };
    let operator = |form| operator(move || SeenGeneration(form));
    check(("interfere", "wrong-state"), scenario, operator).await;
}

/// Creates a child.
struct OneChild;

impl WidgetOperator for OneChild {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key) = (ctx.client(), widget.key());
        if client.live().get_opt::<ConfigMap>(&key).await?.is_some() {
            return Ok(());
        }
        create_once(client, &config_map(&key, "color", "red")).await
    }
}

/// Declares an operator. Planted: it does not watch its children.
fn watching(form: Form) -> OperatorTest {
    if form.is_mended() {
        return operator(|| OneChild);
    }
    let declare = |manager: &Manager| -> Result<(), BoxError> {
        let controller = Controller::builder::<Widget>().build(existing(OneChild))?;
        Ok(manager.add_controller(controller)?)
    };
    OperatorTest::declared(declare).crd_of::<Widget>()
}

#[tokio::test]
async fn a_child_that_is_not_watched_stays_deleted() {
    let scenario = || scenario("unwatched child").apply(widget(json!({"size": 1})));
    check(("interfere", "wrong-state"), scenario, watching).await;
}

/// Keeps two values in a child. Planted: a child that is missing is created with the default of one of them.
struct Defaults(Form);

impl WidgetOperator for Defaults {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, color) = (ctx.client(), widget.spec.color.clone().unwrap_or_default());
        let is_new = widget.status.is_none();
        let color = if is_new || self.0.is_mended() {
            color
        } else {
            "none".to_owned()
        };
        let found = client.get_opt::<ConfigMap>(&widget.key()).await?;
        if found.is_none() || self.0.is_mended() {
            ensure(client, &widget.key(), "color", color).await?;
        }
        set_phase(client, &widget, "Ready").await
    }
}

#[tokio::test]
async fn a_child_that_is_created_again_gets_the_values_of_its_widget() {
    let scenario = || scenario("defaults").apply(widget(json!({"color": "red"})));
    let operator = |form| operator(move || Defaults(form));
    check(("interfere", "wrong-state"), scenario, operator).await;
}
