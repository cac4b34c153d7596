//! Bugs of writes that overwrite the changes of other clients.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::Patch;
use steersman_controller::Context;
use steersman_object::Object as _;
use tokio::time::Duration;

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, create_once, data, key, operator,
    scenario, set_phase, widget,
};

/// Sets the size in a ConfigMap that a user writes, too. Planted: it writes all values, as it has read them.
struct WholeData(Form);

impl WidgetOperator for WholeData {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let key = widget.key().sibling("a-shared");
        let Some(shared) = client.get_opt::<ConfigMap>(&key).await? else {
            return Ok(());
        };
        let mut all = shared.data.clone().unwrap_or_default();
        all.extend(data("size", widget.spec.size));
        if shared.data.as_ref() == Some(&all) {
            return Ok(());
        }
        if self.0.is_mended() {
            let set = |config: &mut ConfigMap| {
                let data = config.data.get_or_insert_default();
                data.insert("size".to_owned(), widget.spec.size.to_string());
            };
            client.modify(&shared, set).await?;
        } else {
            let patch = Patch::Merge(json!({"data": all}));
            client.patch::<ConfigMap>(&key, &patch).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_write_of_all_values_without_a_precondition_undoes_the_change_of_a_user() {
    let scenario = || {
        let shared = key().sibling("a-shared");
        scenario("whole data")
            .initial(manifest(&config_map(&shared, "color", "red")))
            .apply(widget(json!({"size": 1})))
            .pass(Duration::from_millis(100))
            .merge::<ConfigMap>(&shared, json!({"data": {"color": "blue"}}))
            .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
    };
    let operator = |form| operator(move || WholeData(form));
    check(("late-watch", "wrong-state"), scenario, operator).await;
}

/// Creates a child. Planted: that an object of this name exists is success, although it is that of a user.
struct ForeignChild(Form);

impl WidgetOperator for ForeignChild {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let child = config_map(&widget.key(), "owner", "operator");
        create_once(client, &child).await?;
        let found: ConfigMap = client.live().get(&widget.key()).await?;
        let is_own = !self.0.is_mended() || found.data == child.data;
        let phase = if is_own { "Ready" } else { "Blocked" };
        set_phase(client, &widget, phase).await
    }
}

#[tokio::test]
async fn a_foreign_object_of_the_right_name_is_no_success() {
    let scenario = || {
        scenario("foreign child")
            .initial(manifest(&config_map(&key(), "owner", "user")))
            .apply(widget(json!({"size": 1})))
            .finally(
                "a ready widget has a child of its own",
                "objects.all(w, w.kind != 'Widget' || w.status.phase != 'Ready' || \
                 objects.exists(c, c.kind == 'ConfigMap' && c.data.owner == 'operator'))",
            )
    };
    let operator = |form| operator(move || ForeignChild(form));
    check(("reference", "broken-rule"), scenario, operator).await;
}

/// Adds a finalizer. Planted: it writes the whole list.
struct WholeFinalizers(Form);

const FINALIZER: &str = "example.com/whole";

impl WidgetOperator for WholeFinalizers {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        if self.0.is_mended() {
            ctx.client().add_finalizer(&widget, FINALIZER).await?;
            return Ok(());
        }
        let has_it = widget
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|name| name == FINALIZER);
        if !has_it {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
            ctx.client().patch::<Widget>(&widget.key(), &patch).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_list_of_finalizers_that_is_written_whole_drops_that_of_a_user() {
    let scenario = || {
        let mut widget = widget(json!({"size": 1}));
        widget["metadata"]["finalizers"] = json!(["example.com/user"]);
        scenario("whole finalizers").apply(widget).always(
            "the finalizer of the user stays",
            "objects.all(w, w.kind != 'Widget' || 'example.com/user' in w.metadata.finalizers)",
        )
    };
    let operator = |form| operator(move || WholeFinalizers(form));
    check(("reference", "broken-rule"), scenario, operator).await;
}

fn manifest(config: &ConfigMap) -> Value {
    let mut value = serde_json::to_value(config).unwrap();
    (value["apiVersion"], value["kind"]) = (json!("v1"), json!("ConfigMap"));
    value
}
