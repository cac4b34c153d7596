//! Bugs that other desired states show: no step of the scenario names them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_controller::{Context, Error};
use steersman_harness::{OperatorTest, PerturbationKind, PointOutcome, Scenario};
use steersman_object::Object as _;

use super::support::{
    Form, Outcome, Widget, WidgetOperator, check, config_map, create_once, delete_if_there, ensure,
    operator, scenario, widget,
};

fn one_widget(name: &str) -> Scenario {
    scenario(name).apply(widget(json!({"size": 1}))).quiet()
}

/// Keeps a child with the size of its widget. Planted: it only creates the child.
struct IgnoredSize(Form);

impl WidgetOperator for IgnoredSize {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key, size) = (ctx.client(), widget.key(), widget.spec.size);
        match self.0 {
            Form::Planted => create_once(client, &config_map(&key, "size", size)).await,
            Form::Mended => ensure(client, &key, "size", size).await,
        }
    }
}

#[tokio::test]
async fn a_change_that_is_ignored_differs_from_an_object_that_was_created_so() {
    let operator = |form| operator(move || IgnoredSize(form));
    let expected = ("desired-state", "not-as-created");
    check(expected, || one_widget("ignored size"), operator).await;
}

/// Keeps a child with the color of its widget. Planted: a color that is removed stays in the child.
struct StayingColor(Form);

impl WidgetOperator for StayingColor {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key) = (ctx.client(), widget.key());
        create_once(client, &config_map(&key, "size", widget.spec.size)).await?;
        let child = client.live().get::<ConfigMap>(&key).await?;
        let color = widget.spec.color.clone();
        let set = |child: &mut ConfigMap| {
            let data = child.data.get_or_insert_default();
            data.insert("size".to_owned(), widget.spec.size.to_string());
            match &color {
                Some(color) => drop(data.insert("color".to_owned(), color.clone())),
                None if self.0.is_mended() => drop(data.remove("color")),
                None => {}
            }
        };
        client.modify(&child, set).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_field_that_is_removed_and_stays_is_not_undone() {
    let operator = |form| operator(move || StayingColor(form));
    let expected = ("desired-state", "not-undone");
    check(expected, || one_widget("staying color"), operator).await;
}

/// Keeps a child for each number up to the size of its widget. Planted: children beyond a smaller size stay.
struct StayingChildren(Form);

impl WidgetOperator for StayingChildren {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let (client, key) = (ctx.client(), widget.key());
        let child = |number: i32| key.sibling(format!("a-{number}"));
        for number in 0..widget.spec.size.min(4) {
            ensure(client, &child(number), "of", "a").await?;
        }
        if self.0.is_mended() {
            for number in widget.spec.size.max(0)..4 {
                delete_if_there(client, &child(number)).await?;
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn children_beyond_a_smaller_size_stay() {
    let operator = |form| operator(move || StayingChildren(form));
    let expected = ("desired-state", "not-undone");
    check(expected, || one_widget("staying children"), operator).await;
}

/// Divides by the size of its widget. Planted: a size of zero ends the process.
struct DividesBySize(Form);

impl WidgetOperator for DividesBySize {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let size = widget.spec.size;
        let share = if self.0.is_mended() {
            12_i32.checked_div(size)
        } else {
            Some(12 / size)
        };
        ensure(
            ctx.client(),
            &widget.key(),
            "share",
            share.unwrap_or_default(),
        )
        .await
    }
}

#[tokio::test]
async fn a_bound_of_a_field_that_panics_is_found() {
    let operator = |form| operator(move || DividesBySize(form));
    check(
        ("desired-state", "panic"),
        || one_widget("divides"),
        operator,
    )
    .await;
}

/// Refuses a size of zero. Planted: it refuses every later size, too.
struct RefusesZero {
    form: Form,
    has_refused: AtomicBool,
}

impl WidgetOperator for RefusesZero {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let has_refused = self.has_refused.load(Ordering::Relaxed) && !self.form.is_mended();
        if widget.spec.size == 0 || has_refused {
            self.has_refused.store(true, Ordering::Relaxed);
            return Err(Error::msg("a size of zero makes no sense"));
        }
        ensure(ctx.client(), &widget.key(), "size", widget.spec.size).await
    }
}

const UNREACHABLE: &str = "Widget default/a spec.size: 0 instead of 1 \
    (a request keeps failing: widget default/a: a size of zero makes no sense)";

fn refusing(form: Form) -> OperatorTest {
    operator(move || RefusesZero {
        form,
        has_refused: AtomicBool::new(false),
    })
}

#[tokio::test]
async fn an_operator_must_come_back_from_a_state_that_it_cannot_reach() {
    check(
        ("desired-state", "failing"),
        || one_widget("refuses zero"),
        refusing,
    )
    .await;
    let report = refusing(Form::Mended)
        .explore(one_widget("refuses zero"))
        .await
        .unwrap();
    let unreachable = report.desired_states.unreachable;
    assert_eq!(unreachable, [UNREACHABLE]);
}

#[tokio::test]
async fn fields_without_an_effect_are_named_and_fields_are_chosen_by_path() {
    let explore = |scenario: Scenario| {
        let operator = operator(|| IgnoredSize(Form::Mended));
        async move { operator.explore(scenario).await.unwrap() }
    };
    let kind = || PerturbationKind::all().filter(|kind| kind.name() == "desired-state");
    let report = explore(one_widget("all fields").perturbations(kind())).await;
    assert_eq!(report.desired_states.without_effect, ["Widget spec.color"]);
    assert!(
        report
            .points
            .iter()
            .any(|point| point.outcome == PointOutcome::Passed)
    );
    let all = report.points.len();
    let scenario = one_widget("one field")
        .perturbations(kind())
        .change_only("Widget", "spec.color");
    let report = explore(scenario).await;
    assert!(report.points.len() < all, "{}", report.summary());
    let scenario = one_widget("no field")
        .perturbations(kind())
        .never_change("Widget", "spec");
    assert!(explore(scenario).await.points.is_empty());
}
