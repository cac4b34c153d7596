//! Bugs of operators that trust their memory, or that forget.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::json;
use steersman_controller::{Context, Controller, predicate};
use steersman_harness::OperatorTest;
use steersman_manager::Manager;
use steersman_object::{Object as _, ObjectKey};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, all_but, check, config_map, data, delete_if_there,
    ensure, existing, key, operator, phase, scenario, set_phase, widget,
};
use crate::BoxError;

/// Creates one child for each widget. Planted: the set of widgets with a child is kept in memory, and never cleaned.
struct ObservedSet {
    form: Form,
    observed: Mutex<BTreeSet<ObjectKey>>,
}

impl WidgetOperator for ObservedSet {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        if !self.form.is_mended() && self.observed.lock().contains(&widget.key()) {
            return Ok(());
        }
        ensure(ctx.client(), &widget.key(), "color", "red").await?;
        self.observed.lock().insert(widget.key());
        Ok(())
    }
}

#[tokio::test]
async fn a_set_of_observed_children_hides_a_missed_deletion() {
    let scenario = || scenario("observed set").apply(widget(json!({"size": 1})));
    let operator = |form| {
        operator(move || ObservedSet {
            form,
            observed: Mutex::default(),
        })
    };
    check(("missed", "wrong-state"), scenario, operator).await;
}

/// Names a child after the color of its widget. Planted: the former name is kept in memory only.
struct FormerName {
    form: Form,
    former: Mutex<Option<ObjectKey>>,
}

const COLORS: [&str; 2] = ["red", "blue"];

impl WidgetOperator for FormerName {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let color = widget.spec.color.clone().unwrap_or_default();
        let named = |color: &str| widget.key().sibling(format!("a-{color}"));
        ensure(client, &named(&color), "color", &color).await?;
        if self.form.is_mended() {
            for other in COLORS.iter().filter(|other| **other != color) {
                if client.get_opt::<ConfigMap>(&named(other)).await?.is_some() {
                    delete_if_there(client, &named(other)).await?;
                }
            }
            return Ok(());
        }
        let former = self.former.lock().replace(named(&color));
        match former.filter(|former| *former != named(&color)) {
            Some(former) => delete_if_there(client, &former).await,
            None => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_former_name_in_memory_is_forgotten_by_a_crash() {
    let scenario = || {
        // The operator knows two colors.
        scenario("former name")
            .never_change("Widget", "spec")
            .apply(widget(json!({"color": "red"})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"color": "blue"}}))
    };
    let operator = |form| {
        operator(move || FormerName {
            form,
            former: Mutex::default(),
        })
    };
    check(("crash-after-write", "wrong-state"), scenario, operator).await;
}

/// Makes a random password. Planted: it makes another one until the status says that there is one.
struct NewPassword(Form);

impl WidgetOperator for NewPassword {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let found = client.live().get_opt::<Secret>(&widget.key()).await?;
        let is_ready = phase(&widget) == Some("Ready");
        let is_made = found.is_some() && (self.0.is_mended() || is_ready);
        if !is_made {
            let secret = Secret {
                metadata: widget.key().to_meta(),
                string_data: Some(data("password", RandomState::new().hash_one(0))),
                ..Secret::default()
            };
            client.apply(&secret).await?;
        }
        set_phase(client, &widget, "Ready").await
    }
}

#[tokio::test]
async fn a_password_that_is_made_again_after_a_crash_replaces_the_first_one() {
    let scenario = || {
        // No watch of the operator covers the Secret, so it does not notice that a user deletes it.
        scenario("new password")
            .apply(widget(json!({"size": 1})))
            .constant("Secret", "data.password")
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || NewPassword(form));
    check(
        ("crash-after-write", "changed-constant"),
        scenario,
        operator,
    )
    .await;
}

/// Creates a child with a generated name. Planted: its name is noted in the status alone, afterwards.
struct GeneratedName(Form);

impl WidgetOperator for GeneratedName {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if phase(&widget) == Some("Created") {
            return Ok(());
        }
        if self.0.is_mended() {
            ensure(client, &widget.key().sibling("a-child"), "color", "red").await?;
            return set_phase(client, &widget, "Created").await;
        }
        let mut child = config_map(&widget.key(), "color", "red");
        child.metadata.name = None;
        child.metadata.generate_name = Some("a-".to_owned());
        client.create(&child).await?;
        set_phase(client, &widget, "Created").await
    }
}

#[tokio::test]
async fn a_child_with_a_generated_name_is_created_again_by_a_retry() {
    let scenario = || {
        scenario("generated name")
            .apply(widget(json!({"size": 1})))
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || GeneratedName(form));
    check(("lost-answer", "wrong-state"), scenario, operator).await;
}

/// Counts in the status. Planted: the reconciles, and not the changes of the widget.
struct CountedReconciles(Form);

impl WidgetOperator for CountedReconciles {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let counted = widget.status.as_ref().and_then(|status| status.count);
        let count = match self.0 {
            Form::Planted => counted.unwrap_or_default() + 1,
            Form::Mended => widget.metadata.generation.unwrap_or_default(),
        };
        let set = |widget: &mut Widget| {
            widget.status.get_or_insert_default().count = Some(count);
        };
        ctx.client().status().modify(&widget, set).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_count_of_reconciles_grows_with_each_restart() {
    let scenario = || {
        // The operator looks at no change of the status, so it does not notice that of a user.
        // The status counts the generations, which no other state undoes.
        scenario("counted reconciles")
            .never_change("Widget", "spec")
            .apply(widget(json!({"size": 1})))
            .perturbations(all_but(&["interfere"]))
    };
    let operator = |form| {
        let declare = move |manager: &Manager| -> Result<(), BoxError> {
            let controller = Controller::builder::<Widget>()
                .with_predicates(predicate::generation_changed())
                .build(existing(CountedReconciles(form)))?;
            Ok(manager.add_controller(controller)?)
        };
        OperatorTest::declared(declare).crd_of::<Widget>()
    };
    check(("settled-restart", "settled-writes"), scenario, operator).await;
}
