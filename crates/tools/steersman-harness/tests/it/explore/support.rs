//! The operators of the tests of explorations: their kind, their two forms, and what their exploration must find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_client::Client;
use steersman_controller::handler::mapped;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_harness::{ExploreReport, HarnessError, OperatorTest, PerturbationKind, Scenario};
use steersman_manager::Manager;
use steersman_object::{Object as _, ObjectKey};

use crate::BoxError;

/// A widget: the kind that each of the operators reconciles.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    crates(kube_core = "kube_core")
)]
pub(super) struct WidgetSpec {
    #[serde(default)]
    pub(super) size: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) color: Option<String>,
}

/// The status of a widget.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub(super) struct WidgetStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<i64>,
}

/// A form of an operator: with its planted bug, or without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Planted,
    Mended,
}

/// An operator that is called only for widgets that exist.
pub(super) trait WidgetOperator: Send + Sync + 'static {
    fn run(&self, ctx: &Context, widget: Arc<Widget>) -> impl Future<Output = Outcome> + Send;
}

pub(super) type Outcome = Result<(), Error>;

/// The reconciler of a [`WidgetOperator`].
struct Existing<O>(O);

// ===== impl Form =====

impl Form {
    pub(super) fn is_mended(self) -> bool {
        self == Self::Mended
    }
}

// ===== impl Existing =====

impl<O: WidgetOperator> Reconciler for Existing<O> {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        if let Some(widget) = ctx.client().get_opt::<Widget>(&request.key).await? {
            self.0.run(ctx, widget).await?;
        }
        Ok(Action::done())
    }
}

/// Explores both forms of an operator with the same scenario: the planted one with the perturbations that must find its
/// bug, and the mended one with all. The perturbation is the name of a kind, or `reference` for an undisturbed world, and
/// the problem is the name of a kind, too.
pub(super) async fn check(
    (perturbation, problem): (&str, &str),
    scenario: impl Fn() -> Scenario,
    operator: impl Fn(Form) -> OperatorTest,
) {
    let kinds = PerturbationKind::all().filter(|kind| kind.name() == perturbation);
    match operator(Form::Planted)
        .explore(scenario().perturbations(kinds))
        .await
    {
        Err(HarnessError::Explored(failure)) => {
            let found = found(&failure.report);
            let expected = (perturbation.to_owned(), problem);
            assert!(found.contains(&expected), "{found:?}\n{failure}");
        }
        Ok(report) => panic!("the planted bug was not found: {}", names(&report)),
        Err(error) => panic!("the planted form cannot be explored: {error}"),
    }
    let report = operator(Form::Mended).explore(scenario()).await.unwrap();
    // One operator makes random passwords of its own.
    let mut unrepeatable = report.unrepeatable.iter();
    assert!(
        unrepeatable.all(|request| request.contains("secrets")),
        "{}",
        report.summary()
    );
    // Only an operator that writes has such points.
    assert!(
        names(&report).contains("crash-after-write@1"),
        "{}",
        names(&report)
    );
}

/// Returns the points of a report, for messages.
fn names(report: &ExploreReport) -> String {
    let points = report.points.iter().map(|point| {
        let names: Vec<String> = point
            .perturbations
            .iter()
            .map(ToString::to_string)
            .collect();
        format!("{} {:?}", names.join("+"), point.outcome)
    });
    points.collect::<Vec<_>>().join(", ")
}

/// Returns the kind of the perturbation and of the problem of each finding.
fn found(report: &ExploreReport) -> Vec<(String, &'static str)> {
    let kinds = report.findings.iter().map(|finding| {
        let kind = finding.perturbations.first().map(|one| one.kind.name());
        (
            kind.unwrap_or("reference").to_owned(),
            finding.problem.kind(),
        )
    });
    kinds.collect()
}

/// Begins a scenario with short times; the clock of its worlds is paused.
pub(super) fn scenario(name: &str) -> Scenario {
    Scenario::new(name)
        .quiet_for(Duration::from_secs(2))
        .patience(Duration::from_secs(20))
}

/// Returns all kinds of perturbations but those with these names.
pub(super) fn all_but(names: &[&str]) -> Vec<PerturbationKind> {
    PerturbationKind::all()
        .filter(|kind| !names.contains(&kind.name()))
        .collect()
}

/// Declares an operator that reconciles a widget after each change of the widget, and of each ConfigMap with a name that
/// begins with that of the widget.
pub(super) fn operator<O: WidgetOperator>(
    make: impl Fn() -> O + Send + Sync + 'static,
) -> OperatorTest {
    reconciler(move || existing(make()))
}

/// Returns the reconciler of an operator that is called only for widgets that exist.
pub(super) fn existing(operator: impl WidgetOperator) -> impl Reconciler {
    Existing(operator)
}

/// Declares an operator with a reconciler that is called for widgets that are gone, too.
pub(super) fn reconciler<R: Reconciler>(
    make: impl Fn() -> R + Send + Sync + 'static,
) -> OperatorTest {
    let declare = move |manager: &Manager| -> Result<(), BoxError> {
        let controller = Controller::builder::<Widget>()
            .watches::<ConfigMap>(mapped(widget_of))
            .build(make())?;
        Ok(manager.add_controller(controller)?)
    };
    OperatorTest::declared(declare).crd_of::<Widget>()
}

/// Returns the key of the widget that a ConfigMap belongs to: `a` for `a` and `a-1`.
pub(super) fn widget_of(config: &ConfigMap) -> [ObjectKey; 1] {
    let key = config.key();
    let name = key.name().split('-').next().unwrap_or_default().to_owned();
    [key.sibling(name)]
}

/// The key of the widget `a`, which the scenarios are about.
pub(super) fn key() -> ObjectKey {
    ObjectKey::namespaced("default", "a")
}

/// Returns the manifest of the widget `a`.
#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
pub(super) fn widget(spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": spec,
    })
}

pub(super) fn config_map(key: &ObjectKey, name: &str, value: impl ToString) -> ConfigMap {
    ConfigMap {
        metadata: key.to_meta(),
        data: Some(data(name, value)),
        ..ConfigMap::default()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
pub(super) fn data(name: &str, value: impl ToString) -> BTreeMap<String, String> {
    [(name.to_owned(), value.to_string())].into()
}

/// Creates a ConfigMap with one value, or sets the value in it, if that is needed.
pub(super) async fn ensure(
    client: &Client,
    key: &ObjectKey,
    name: &str,
    value: impl ToString,
) -> Outcome {
    let wanted = config_map(key, name, value);
    match client.get_opt::<ConfigMap>(key).await? {
        None => {
            client.create(&wanted).await?;
        }
        Some(found) => {
            let data = wanted.data;
            client
                .modify(&found, |config: &mut ConfigMap| {
                    config.data.clone_from(&data)
                })
                .await?;
        }
    }
    Ok(())
}

/// Creates an object unless it exists.
pub(super) async fn create_once(client: &Client, config: &ConfigMap) -> Outcome {
    match client.create(config).await {
        Err(error) if error.is_already_exists() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Deletes a ConfigMap, if it exists.
pub(super) async fn delete_if_there(client: &Client, key: &ObjectKey) -> Outcome {
    match client.delete_key::<ConfigMap>(key).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

pub(super) fn phase(widget: &Widget) -> Option<&str> {
    widget.status.as_ref()?.phase.as_deref()
}

pub(super) async fn set_phase(client: &Client, widget: &Widget, phase: &str) -> Outcome {
    let set = |widget: &mut Widget| {
        widget.status.get_or_insert_default().phase = Some(phase.to_owned());
    };
    client.status().modify(widget, set).await?;
    Ok(())
}
