//! Bugs with owners that were deleted and created again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use steersman_client::owner;
use steersman_controller::Context;
use steersman_object::{Object as _, ObjectKey};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, operator, scenario, set_phase, widget,
};

/// Creates a child that its widget owns. Planted: the owner is the first widget of this name, which is kept in memory, so
/// that the garbage collector deletes each child of a later one.
struct FormerOwner {
    form: Form,
    first: Mutex<BTreeMap<ObjectKey, Arc<Widget>>>,
}

impl WidgetOperator for FormerOwner {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let mut owner = Arc::clone(&widget);
        if !self.form.is_mended() {
            let mut first = self.first.lock();
            owner = Arc::clone(first.entry(widget.key()).or_insert(owner));
        }
        let mut child = config_map(&widget.key(), "color", "red");
        owner::set_controller_reference(&*owner, &mut child)?;
        let found = client.live().get_opt::<ConfigMap>(&widget.key()).await?;
        if found.is_none() {
            client.create(&child).await?;
        }
        set_phase(client, &widget, "Ready").await
    }
}

#[tokio::test]
async fn a_child_with_the_uid_of_a_former_owner_is_deleted_again_and_again() {
    let scenario = || scenario("former owner").apply(widget(json!({"size": 1})));
    let operator = |form| {
        operator(move || FormerOwner {
            form,
            first: Mutex::default(),
        })
    };
    check(("missed", "not-quiet"), scenario, operator).await;
}
