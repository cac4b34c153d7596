//! Handle: builds the scenario of an exploration.

use std::sync::Arc;
use std::time::Duration;

use kube_core::Resource;
use serde::Serialize;
use serde_json::{Value, json};
use steersman_object::ObjectKey;
use steersman_testenv::apiserver::ApiServerBuilder;
use steersman_testenv::apiserver::explore::engine::{
    self, CampaignOptions, FieldPattern, IgnoredPart, KindField, ObjectId, Perturbation,
    PerturbationKind, Rule, ScenarioRules, Step,
};

/// What a user does with an operator, what must hold, and what is tried. Give it to
/// [`OperatorTest::explore`](crate::OperatorTest::explore).
///
/// The objects of [`apply`](Self::apply) are applied by server-side apply, and those without a namespace are in `default`.
#[derive(derive_more::Debug)]
#[must_use = "a scenario does nothing until an operator is explored with it"]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) initial: Vec<Value>,
    pub(crate) steps: Vec<Step>,
    pub(crate) rules: ScenarioRules,
    pub(crate) options: CampaignOptions,
    /// The first mistake in a rule, a field or a name.
    pub(crate) mistake: Option<String>,
    #[debug(skip)]
    pub(crate) configure: Configure,
}

/// Sets the options of a world's server.
pub(crate) type Configure = Arc<dyn Fn(ApiServerBuilder) -> ApiServerBuilder + Send + Sync>;

impl Scenario {
    /// Creates a scenario without steps. The name appears in reports; that of the test is a good one.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            initial: Vec::new(),
            steps: Vec::new(),
            rules: ScenarioRules::default(),
            options: CampaignOptions::default(),
            mistake: None,
            configure: Arc::new(|server| server),
        }
    }

    /// Adds an object that exists before the operator starts. Definitions of the
    /// [`OperatorTest`](crate::OperatorTest) are installed before.
    pub fn initial(mut self, object: impl Serialize) -> Self {
        let object = self.serialized(object);
        self.initial.extend(object);
        self
    }

    /// Adds a step: the user applies an object.
    pub fn apply(mut self, object: impl Serialize) -> Self {
        if let Some(object) = self.serialized(object) {
            let source = ObjectId::of(&object).name;
            self.steps.push(Step::Apply {
                source,
                objects: vec![object],
            });
        }
        self
    }

    /// Adds a step: the user changes an object by a JSON merge patch.
    pub fn merge<K: Resource<DynamicType = ()>>(mut self, key: &ObjectKey, patch: Value) -> Self {
        let (api_version, object) = id_of::<K>(key);
        self.steps.push(Step::Merge {
            api_version,
            object,
            patch,
        });
        self
    }

    /// Adds a step: the user scales an object, by its `spec.replicas`.
    pub fn scale<K: Resource<DynamicType = ()>>(self, key: &ObjectKey, replicas: u32) -> Self {
        self.merge::<K>(key, json!({"spec": {"replicas": replicas}}))
    }

    /// Adds a step: the user deletes an object.
    pub fn delete<K: Resource<DynamicType = ()>>(mut self, key: &ObjectKey) -> Self {
        let (api_version, object) = id_of::<K>(key);
        self.steps.push(Step::Delete {
            api_version,
            object,
        });
        self
    }

    /// Adds a step: the user waits until the operator is quiet. Each world must then be in the state of the undisturbed
    /// run, as at the end.
    pub fn quiet(mut self) -> Self {
        self.steps.push(Step::Quiet);
        self
    }

    /// Adds a step: time passes, by the paused clock of the world.
    pub fn pass(mut self, time: Duration) -> Self {
        self.steps.push(Step::Pass(time));
        self
    }

    /// Adds a rule in CEL that must hold after each write of the operator. In the rule the variable `objects` lists every
    /// object.
    pub fn always(mut self, name: &str, rule: &str) -> Self {
        let rule = self.compiled(name, rule);
        self.rules.always.extend(rule);
        self
    }

    /// Adds a rule in CEL that must hold at the end. In the rule the variable `objects` lists every object.
    pub fn finally(mut self, name: &str, rule: &str) -> Self {
        let rule = self.compiled(name, rule);
        self.rules.finally.extend(rule);
        self
    }

    /// Adds a field of a kind that must keep its value once the operator has set it, such as `data.password` of
    /// `Secret`.
    pub fn constant(mut self, kind: &str, path: &str) -> Self {
        if let Some(field) = self.field(kind, path) {
            self.rules.constant.push(field);
        }
        self
    }

    /// Leaves a kind out of the comparison with the undisturbed run.
    pub fn ignore_kind(mut self, kind: &str) -> Self {
        let kind = kind.to_owned();
        self.rules.ignore.push(IgnoredPart { kind, field: None });
        self
    }

    /// Leaves a field of a kind out of the comparison with the undisturbed run.
    pub fn ignore(mut self, kind: &str, path: &str) -> Self {
        if let Some(field) = self.parsed(path) {
            let (kind, field) = (kind.to_owned(), Some(field));
            self.rules.ignore.push(IgnoredPart { kind, field });
        }
        self
    }

    /// Gives other desired states only to this field, and to all that is in it. Call it once for each field. Default: all
    /// fields that the schema of a custom resource has.
    pub fn change_only(mut self, kind: &str, path: &str) -> Self {
        if let Some(field) = self.field(kind, path) {
            self.rules.desired_states.only.push(field);
        }
        self
    }

    /// Gives no other desired states to this field, nor to what is in it.
    pub fn never_change(mut self, kind: &str, path: &str) -> Self {
        if let Some(field) = self.field(kind, path) {
            self.rules.desired_states.skip.push(field);
        }
        self
    }

    /// Sets how long the operator must write nothing to count as quiet, by the paused clock. Default 2 s.
    pub fn quiet_for(mut self, time: Duration) -> Self {
        self.rules.quiet = time;
        self
    }

    /// Sets the time limit for the operator to become quiet in the right state, by the paused clock. Default 60 s.
    pub fn patience(mut self, time: Duration) -> Self {
        self.rules.patience = time;
        self
    }

    /// Sets the number of processes of the operator. More than one take part in a leader election, so that `two-leaders` is
    /// tried. Default 1.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.rules.replicas = replicas.max(1);
        self
    }

    /// Tries only these kinds of perturbations. Default: all that fit.
    pub fn perturbations(mut self, kinds: impl IntoIterator<Item = PerturbationKind>) -> Self {
        self.rules.perturbations = Some(kinds.into_iter().collect());
        self
    }

    /// Tries only the perturbation with this name, as a story names it, such as `crash-after-write@3`, or none with
    /// `reference`.
    pub fn only(mut self, name: &str) -> Self {
        match Perturbation::parse_all(name) {
            Ok(only) => self.options.only = Some(only),
            Err(error) => self.note(error.to_string()),
        }
        self
    }

    /// Tries this number of pairs of perturbations after all single ones; the seed chooses them. Default 0.
    pub fn pairs(mut self, pairs: usize, seed: u64) -> Self {
        (self.options.pairs, self.options.seed) = (pairs, seed);
        self
    }

    /// Sets the real time after which no further point is tried. Default: no limit.
    pub fn budget(mut self, time: Duration) -> Self {
        self.options.budget = Some(time);
        self
    }

    /// Sets the options of the server of each world, for instance that it plays the controllers of workloads. The seed of a
    /// server is that of its world.
    pub fn on_server(
        mut self,
        configure: impl Fn(ApiServerBuilder) -> ApiServerBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Returns the scenario of the engine, with the definitions of the test first.
    pub(crate) fn build(self, definitions: Vec<Value>) -> engine::Scenario {
        let mut initial = definitions;
        initial.extend(self.initial);
        engine::Scenario {
            initial: initial.into(),
            steps: self.steps.into(),
            rules: Arc::new(self.rules),
        }
    }

    fn serialized(&mut self, object: impl Serialize) -> Option<Value> {
        let object = serde_json::to_value(object);
        object.map_err(|why| self.note(why.to_string())).ok()
    }

    fn compiled(&mut self, name: &str, rule: &str) -> Option<Rule> {
        let compiled = Rule::compile(name, rule);
        compiled
            .map_err(|why| self.note(format!("the rule {name:?}: {why}")))
            .ok()
    }

    fn field(&mut self, kind: &str, path: &str) -> Option<KindField> {
        let field = self.parsed(path)?;
        let kind = kind.to_owned();
        Some(KindField { kind, field })
    }

    fn parsed(&mut self, path: &str) -> Option<FieldPattern> {
        FieldPattern::parse(path).map_err(|why| self.note(why)).ok()
    }

    fn note(&mut self, mistake: String) {
        self.mistake.get_or_insert(mistake);
    }
}

fn id_of<K: Resource<DynamicType = ()>>(key: &ObjectKey) -> (String, ObjectId) {
    let id = ObjectId {
        group: K::group(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
    };
    (K::api_version(&()).into_owned(), id)
}
