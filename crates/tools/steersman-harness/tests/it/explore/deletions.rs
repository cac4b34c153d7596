//! Bugs that the deletion of a namespace shows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};
use steersman_client::Client;
use steersman_client::finalizer::{self, FinalizerStage};
use steersman_controller::{Context, Error};
use steersman_harness::Scenario;
use steersman_object::{Object as _, ObjectKey};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, all_but, check, delete_if_there, ensure, operator,
    scenario, set_phase, widget,
};

const FINALIZER: &str = "example.com/record";

/// Writes a farewell when a widget is deleted. Planted: in its namespace, which accepts nothing new while it is deleted.
struct Farewell(Form);

impl WidgetOperator for Farewell {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        match finalizer::stage(&widget, FINALIZER) {
            FinalizerStage::Missing => {
                client.add_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::CleanUp => {
                let farewell = match self.0 {
                    Form::Planted => widget.key().sibling("a-farewell"),
                    Form::Mended => ObjectKey::namespaced("records", "a-farewell"),
                };
                ensure(client, &farewell, "to", "a").await?;
                client.remove_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::Held => set_phase(client, &widget, "Ready").await,
            FinalizerStage::Released => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_clean_up_that_creates_an_object_in_its_namespace_never_ends() {
    // The operator does not watch its farewells.
    let scenario = || in_shop("farewell").perturbations(all_but(&["interfere", "missed"]));
    let operator = |form| operator(move || Farewell(form));
    check(("namespace-deleted", "leftovers"), scenario, operator).await;
}

/// Keeps a record of each widget in another namespace. Planted: a widget that goes with its namespace is released
/// without a clean-up.
struct LeakedRecord(Form);

impl WidgetOperator for LeakedRecord {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let record = ObjectKey::namespaced("records", "a-record");
        match finalizer::stage(&widget, FINALIZER) {
            FinalizerStage::Missing => {
                client.add_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::CleanUp => {
                let goes_with_all = is_ending(client, "shop").await?;
                if self.0.is_mended() || !goes_with_all {
                    delete_if_there(client, &record).await?;
                }
                client.remove_finalizer(&widget, FINALIZER).await?;
                Ok(())
            }
            FinalizerStage::Held => {
                ensure(client, &record, "of", "a").await?;
                set_phase(client, &widget, "Ready").await
            }
            FinalizerStage::Released => Ok(()),
        }
    }
}

async fn is_ending(client: &Client, namespace: &str) -> Result<bool, Error> {
    let key = ObjectKey::cluster_scoped(namespace);
    let found = client.live().get_opt::<Namespace>(&key).await?;
    Ok(found.is_none_or(|namespace| namespace.is_being_deleted()))
}

#[tokio::test]
async fn a_record_elsewhere_is_leaked_when_the_namespace_is_deleted() {
    let scenario = || in_shop("leaked record");
    let operator = |form| operator(move || LeakedRecord(form));
    check(("namespace-deleted", "leftovers"), scenario, operator).await;
}

/// Begins a scenario of a widget in the namespace `shop`, which is deleted at the end.
fn in_shop(name: &str) -> Scenario {
    let mut widget = widget(json!({"size": 1}));
    widget["metadata"]["namespace"] = json!("shop");
    scenario(name)
        .initial(namespace("shop"))
        .initial(namespace("records"))
        .apply(widget)
        .quiet()
        .delete::<Widget>(&ObjectKey::namespaced("shop", "a"))
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
