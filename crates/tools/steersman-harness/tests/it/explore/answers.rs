//! Bugs that a refusal, a lost answer or a throttled request shows.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_controller::{Context, Error};
use steersman_harness::OperatorTest;
use steersman_manager::{Group, Manager, runnable};
use steersman_object::{ListOptions, Object as _};
use steersman_webhook::{AdmissionContext, Defaulter, Refusal};
use tokio::time::{Duration, sleep};

use super::support::{
    Form, Outcome, Widget, WidgetOperator, all_but, check, config_map, create_once, data, ensure,
    key, operator, phase, scenario, set_phase, widget,
};
use crate::BoxError;

/// Creates a child. Planted: an error of the server makes the widget fail for ever, although the child may exist.
struct HastyFailure(Form);

impl WidgetOperator for HastyFailure {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if phase(&widget) == Some("Failed") {
            return Ok(());
        }
        let created = ensure(client, &widget.key(), "size", widget.spec.size).await;
        match (created, self.0) {
            (Ok(()), _) => set_phase(client, &widget, "Ready").await,
            (Err(_), Form::Planted) => set_phase(client, &widget, "Failed").await,
            (Err(error), Form::Mended) => Err(error),
        }
    }
}

#[tokio::test]
async fn a_lost_answer_that_counts_as_a_failure_leaves_a_failed_widget() {
    let scenario = || scenario("hasty failure").apply(widget(json!({"size": 1})));
    let operator = |form| operator(move || HastyFailure(form));
    check(("lost-answer", "wrong-state"), scenario, operator).await;
}

/// Creates a child and reports it. Planted: the error of the create is dropped, and a widget that is ready is left alone.
struct SwallowedError(Form);

impl WidgetOperator for SwallowedError {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if !self.0.is_mended() && phase(&widget) == Some("Ready") {
            return Ok(());
        }
        let created = ensure(client, &widget.key(), "size", widget.spec.size).await;
        if self.0.is_mended() {
            created?;
        }
        set_phase(client, &widget, "Ready").await
    }
}

#[tokio::test]
async fn a_dropped_error_leaves_a_ready_widget_without_its_child() {
    let scenario = || scenario("swallowed error").apply(widget(json!({"size": 1})));
    let operator = |form| operator(move || SwallowedError(form));
    check(("refuse", "wrong-state"), scenario, operator).await;
}

/// Adds each new widget to the sum of a shared ConfigMap. Planted: the sum grows again if the answer is lost.
struct CountedTwice(Form);

impl WidgetOperator for CountedTwice {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        let sum = widget.key().sibling("sum");
        create_once(client, &config_map(&sum, "total", 0)).await?;
        let found: ConfigMap = client.live().get(&sum).await?;
        let entered = found.data.unwrap_or_default();
        let is_entered = entered.contains_key(widget.key().name());
        if phase(&widget) == Some("Counted") || (self.0.is_mended() && is_entered) {
            return set_phase(client, &widget, "Counted").await;
        }
        let total: i32 = entered["total"].parse().unwrap_or_default();
        let mut after = data("total", total + widget.spec.size);
        after.insert(widget.key().name().to_owned(), "counted".to_owned());
        let add = |sum: &mut ConfigMap| sum.data = Some(after.clone());
        let found: ConfigMap = client.live().get(&sum).await?;
        client.modify(&found, add).await?;
        set_phase(client, &widget, "Counted").await
    }
}

#[tokio::test]
async fn a_sum_that_is_not_idempotent_counts_a_widget_twice() {
    let scenario = || {
        // A user who interferes with the sum changes what no operator can know.
        // A widget is counted once, whatever becomes of its size.
        scenario("counted twice")
            .never_change("Widget", "spec")
            .apply(widget(json!({"size": 2})))
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || CountedTwice(form));
    check(("lost-answer", "wrong-state"), scenario, operator).await;
}

/// Sets the size of a shared ConfigMap. Planted: a conflict ends all attempts.
struct FirstConflict(Form);

impl WidgetOperator for FirstConflict {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let written = ensure(ctx.client(), &widget.key(), "size", widget.spec.size).await;
        written.map_err(|error| match self.0 {
            Form::Planted => error.terminal(),
            Form::Mended => error,
        })
    }
}

#[tokio::test]
async fn an_operator_that_stops_at_the_first_conflict_leaves_the_old_size() {
    let scenario = || {
        scenario("first conflict")
            .apply(widget(json!({"size": 1})))
            .quiet()
            .merge::<Widget>(&key(), json!({"spec": {"size": 2}}))
    };
    let operator = |form| operator(move || FirstConflict(form));
    check(("refuse", "wrong-state"), scenario, operator).await;
}

/// Runs one Job for each widget. Planted: the Job's name counts the Jobs, and the status says that one runs.
struct SecondJob(Form);

impl WidgetOperator for SecondJob {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if phase(&widget) == Some("Started") {
            return Ok(());
        }
        let all = ListOptions::new().namespace("default");
        let jobs = client.live().list::<Job>(&all).await?;
        let number = match self.0 {
            Form::Planted => jobs.len(),
            Form::Mended => 0,
        };
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": format!("a-{number}"), "namespace": "default"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "work", "image": "work:1"}],
            }}},
        }))
        .map_err(Error::from)?;
        match client.create(&job).await {
            Err(error) if error.is_already_exists() => {}
            other => drop(other?),
        }
        set_phase(client, &widget, "Started").await
    }
}

#[tokio::test]
async fn a_job_with_a_start_that_is_noted_afterwards_starts_twice() {
    let scenario = || {
        // A deleted Job is not started again: it ran.
        scenario("second job")
            .apply(widget(json!({"size": 1})))
            .perturbations(all_but(&["interfere", "missed"]))
    };
    let operator = |form| operator(move || SecondJob(form));
    check(("lost-answer", "wrong-state"), scenario, operator).await;
}

/// Writes a note when it starts. Planted: a throttled request ends the program.
fn greeter(form: Form) -> OperatorTest {
    OperatorTest::declared(move |manager: &Manager| -> Result<(), BoxError> {
        let client = manager.client().clone();
        let greeter = runnable::from_fn("greeter", Group::Others, async move |context| {
            let note = config_map(&key().sibling("note"), "text", "hello");
            loop {
                match create_once(&client, &note).await {
                    Err(_) if form.is_mended() => sleep(Duration::from_millis(500)).await,
                    other => break other?,
                }
            }
            context.cancelled().await;
            Ok(())
        });
        Ok(manager.add(greeter)?)
    })
}

#[tokio::test]
async fn a_program_that_ends_when_its_first_write_fails_is_restarted_by_its_kubelet() {
    let scenario = || {
        scenario("fragile start")
            .quiet()
            .perturbations(all_but(&["interfere", "missed"]))
    };
    check(("refuse", "exit"), scenario, greeter).await;
}

/// Labels each ConfigMap, as an admission webhook.
struct Labels;

impl Defaulter<ConfigMap> for Labels {
    async fn default(&self, config: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        let labels = config.metadata.labels.get_or_insert_default();
        labels.insert("team".to_owned(), "blue".to_owned());
        Ok(())
    }
}

/// Creates a child. Planted: it waits for no webhook, and goes on without the child if the first create fails.
struct WebhookNeeded(Form);

impl WidgetOperator for WebhookNeeded {
    async fn run(&self, ctx: &Context, widget: Arc<Widget>) -> Outcome {
        let client = ctx.client();
        if let Err(error) = ensure(client, &widget.key(), "size", widget.spec.size).await {
            return match self.0 {
                Form::Planted => Err(error.terminal()),
                Form::Mended => Err(error),
            };
        }
        set_phase(client, &widget, "Ready").await
    }
}

#[tokio::test]
async fn a_write_that_is_tried_only_once_needs_the_webhooks_all_the_time() {
    let scenario = || scenario("webhook needed").apply(widget(json!({"size": 1})));
    let operator = |form| {
        operator(move || WebhookNeeded(form))
            .webhooks(|server| server.defaulter::<ConfigMap>(Labels))
    };
    check(("no-webhook", "wrong-state"), scenario, operator).await;
}
