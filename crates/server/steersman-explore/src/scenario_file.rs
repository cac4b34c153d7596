//! Machine: reads the file of a scenario, and names each mistake with its place.

use std::time::Duration;

use serde_json::{Map, Value};
use steersman_apimachinery::{go, yaml};

use crate::field_pattern::FieldPattern;
use crate::object_id::ObjectId;
use crate::perturbation::PerturbationKind;
use crate::rule::Rule;
use crate::scenario::{DesiredFields, IgnoredPart, KindField, ScenarioRules, Step};

/// A scenario as its file describes it: the objects are still names of files.
#[derive(Debug)]
pub struct ScenarioFile {
    /// The files and folders of the initial objects, relative to the file of the scenario.
    pub initial: Vec<String>,
    /// The steps.
    pub steps: Vec<FileStep>,
    /// What must hold, and what is compared.
    pub rules: ScenarioRules,
}

/// A step as a file describes it.
#[derive(Debug, PartialEq)]
pub enum FileStep {
    /// Applies the objects of a file or folder, relative to the file of the scenario.
    Apply(String),
    /// Any other step.
    Other(Step),
}

/// A mistake in the file of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ScenarioFileError {
    /// The member, such as `steps[2].merge`; `the file` for the whole file.
    pub place: String,
    /// The reason.
    pub why: String,
}

type Parsed<T> = Result<T, ScenarioFileError>;

/// Members of an object that have not been read yet; each member that remains is a mistake.
struct Members<'a> {
    place: String,
    left: Map<String, Value>,
    known: &'a [&'a str],
}

const TOP: [&str; 12] = [
    "initial", "steps", "quiet", "patience", "always", "finally", "constant", "ignore", "replicas",
    "serviceAccount", "perturbations", "desiredStates",
];

const STEPS: &str = "a step has one of the members apply, merge, delete, quiet and pass";

impl ScenarioFile {
    /// Reads a scenario from YAML or JSON.
    ///
    /// # Errors
    /// [`ScenarioFileError`] for the first mistake.
    pub fn parse(text: &str) -> Parsed<Self> {
        let whole = |why: String| mistake("the file", why);
        let documents = yaml::documents(text).map_err(whole)?;
        let mut documents = documents.into_iter().filter(|one| !one.value.is_null());
        let (Some(document), None) = (documents.next(), documents.next()) else {
            return Err(mistake("the file", "it must have one document"));
        };
        let mut file = Members::of("", document.value, &TOP)?;
        let defaults = ScenarioRules::default();
        let initial = file.list("initial", text_of)?;
        let steps = file.list("steps", step)?;
        let rules = ScenarioRules {
            quiet: file.duration("quiet")?.unwrap_or(defaults.quiet),
            patience: file.duration("patience")?.unwrap_or(defaults.patience),
            always: file.list("always", rule)?,
            finally: file.list("finally", rule)?,
            constant: file.list("constant", kind_field)?,
            ignore: file.list("ignore", |place, value| {
                let (kind, field) = kind_and_field(place, value)?;
                Ok(IgnoredPart { kind, field })
            })?,
            replicas: match file.take("replicas") {
                None => defaults.replicas,
                Some(value) => replicas(&value)?,
            },
            service_account: match file.take("serviceAccount") {
                None => None,
                Some(value) => Some(service_account(value)?),
            },
            desired_states: match file.take("desiredStates") {
                None => DesiredFields::default(),
                Some(value) => desired_fields(value)?,
            },
            perturbations: match file.left.contains_key("perturbations") {
                false => None,
                true => Some(file.list("perturbations", |place, value| {
                    let name = text_of(place, value)?;
                    PerturbationKind::parse(&name).map_err(|error| mistake(place, error))
                })?),
            },
        };
        file.end()?;
        if steps.is_empty() && initial.is_empty() {
            return Err(mistake(
                "the file",
                "it has neither initial objects nor steps, so nothing happens",
            ));
        }
        Ok(Self {
            initial,
            steps,
            rules,
        })
    }
}

impl<'a> Members<'a> {
    fn of(place: &str, value: Value, known: &'a [&'a str]) -> Parsed<Self> {
        match value {
            Value::Object(left) => Ok(Self {
                place: place.to_owned(),
                left,
                known,
            }),
            other => {
                let place = if place.is_empty() { "the file" } else { place };
                Err(mistake(
                    place,
                    format!("it must be an object, and is {}", kind_of(&other)),
                ))
            }
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    fn place_of(&self, name: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        }
    }

    fn text(&mut self, name: &str) -> Parsed<String> {
        match self.take(name) {
            Some(value) => text_of(&self.place_of(name), value),
            None => Err(mistake(
                &self.place,
                format!("the member {name} is missing"),
            )),
        }
    }

    fn optional_text(&mut self, name: &str) -> Parsed<String> {
        let value = self.take(name);
        value.map_or(Ok(String::new()), |value| {
            text_of(&self.place_of(name), value)
        })
    }

    fn duration(&mut self, name: &str) -> Parsed<Option<Duration>> {
        let value = self.take(name);
        value
            .map(|value| duration(&self.place_of(name), &value))
            .transpose()
    }

    /// Reads a list; a value that is no list counts as a list of that value.
    fn list<T>(&mut self, name: &str, read: impl Fn(&str, Value) -> Parsed<T>) -> Parsed<Vec<T>> {
        let place = self.place_of(name);
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items
                    .map(|(at, item)| read(&format!("{place}[{at}]"), item))
                    .collect()
            }
            Some(one) => Ok(vec![read(&place, one)?]),
        }
    }

    /// Refuses members that were not read.
    fn end(self) -> Parsed<()> {
        match self
            .left
            .keys()
            .find(|name| !self.known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => {
                let place = if self.place.is_empty() {
                    "the file"
                } else {
                    &self.place
                };
                let known = self.known.join(", ");
                Err(mistake(
                    place,
                    format!("there is no member {name}; the members are {known}"),
                ))
            }
        }
    }
}

fn step(place: &str, value: Value) -> Parsed<FileStep> {
    let mut members = Members::of(place, value, &["apply", "merge", "delete", "quiet", "pass"])?;
    if members.left.len() != 1 {
        return Err(mistake(place, STEPS));
    }
    if let Some(value) = members.take("apply") {
        return Ok(FileStep::Apply(text_of(&members.place_of("apply"), value)?));
    }
    if let Some(value) = members.take("pass") {
        let time = duration(&members.place_of("pass"), &value)?;
        return Ok(FileStep::Other(Step::Pass(time)));
    }
    if let Some(value) = members.take("merge") {
        let place = members.place_of("merge");
        let mut inside = Members::of(
            &place,
            value,
            &["apiVersion", "kind", "namespace", "name", "patch"],
        )?;
        let (api_version, object) = object_of(&mut inside)?;
        let patch = inside
            .take("patch")
            .ok_or_else(|| mistake(&place, "the member patch is missing"))?;
        inside.end()?;
        return Ok(FileStep::Other(Step::Merge {
            api_version,
            object,
            patch,
        }));
    }
    if let Some(value) = members.take("delete") {
        let place = members.place_of("delete");
        let mut inside = Members::of(&place, value, &["apiVersion", "kind", "namespace", "name"])?;
        let (api_version, object) = object_of(&mut inside)?;
        inside.end()?;
        return Ok(FileStep::Other(Step::Delete {
            api_version,
            object,
        }));
    }
    if members.left.remove("quiet").is_some() {
        return Ok(FileStep::Other(Step::Quiet));
    }
    members.end()?;
    Err(mistake(place, STEPS))
}

fn object_of(members: &mut Members<'_>) -> Parsed<(String, ObjectId)> {
    let api_version = members.text("apiVersion")?;
    let group = api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
        .to_owned();
    let object = ObjectId {
        group,
        kind: members.text("kind")?,
        namespace: members.optional_text("namespace")?,
        name: members.text("name")?,
    };
    Ok((api_version, object))
}

fn rule(place: &str, value: Value) -> Parsed<Rule> {
    let mut members = Members::of(place, value, &["name", "rule"])?;
    let name = members.text("name")?;
    let text = members.text("rule")?;
    members.end()?;
    Rule::compile(&name, &text).map_err(|why| mistake(&format!("{place}.rule"), why))
}

fn kind_and_field(place: &str, value: Value) -> Parsed<(String, Option<FieldPattern>)> {
    let mut members = Members::of(place, value, &["kind", "path"])?;
    let kind = members.text("kind")?;
    let field = match members.take("path") {
        None => None,
        Some(value) => {
            let place = members.place_of("path");
            let text = text_of(&place, value)?;
            Some(FieldPattern::parse(&text).map_err(|why| mistake(&place, why))?)
        }
    };
    members.end()?;
    Ok((kind, field))
}

fn kind_field(place: &str, value: Value) -> Parsed<KindField> {
    let (kind, field) = kind_and_field(place, value)?;
    let field = field.ok_or_else(|| mistake(place, "the member path is missing"))?;
    Ok(KindField { kind, field })
}

fn desired_fields(value: Value) -> Parsed<DesiredFields> {
    let mut members = Members::of("desiredStates", value, &["only", "skip"])?;
    let only = members.list("only", kind_field)?;
    let skip = members.list("skip", kind_field)?;
    members.end()?;
    Ok(DesiredFields { only, skip })
}

fn service_account(value: Value) -> Parsed<(String, String)> {
    let place = "serviceAccount";
    let mut members = Members::of(place, value, &["namespace", "name"])?;
    let account = (members.text("namespace")?, members.text("name")?);
    members.end()?;
    Ok(account)
}

fn replicas(value: &Value) -> Parsed<usize> {
    let number = value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| (1..=9).contains(number));
    number.ok_or_else(|| {
        mistake(
            "replicas",
            format!("it must be a number from 1 to 9, and is {value}"),
        )
    })
}

fn duration(place: &str, value: &Value) -> Parsed<Duration> {
    let wanted = || {
        mistake(
            place,
            format!("it must be a duration such as 2s or 1m30s, and is {value}"),
        )
    };
    let nanos = match value {
        Value::String(text) => go::parse_duration(text).map_err(|_| wanted())?,
        _ => return Err(wanted()),
    };
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| wanted())
}

fn text_of(place: &str, value: Value) -> Parsed<String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        other => Err(mistake(
            place,
            format!("it must be a text, and is {}", kind_of(&other)),
        )),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty text",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn mistake(place: &str, why: impl std::fmt::Display) -> ScenarioFileError {
    ScenarioFileError {
        place: place.to_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WHOLE: &str = "
initial: [crds, setup.yaml]
steps:
- apply: site.yaml
- quiet: {}
- merge: {apiVersion: example.com/v1, kind: Site, namespace: shop, name: a, patch: {spec: {replicas: 2}}}
- pass: 5s
- delete: {apiVersion: v1, kind: Namespace, name: shop}
quiet: 1s
patience: 1m30s
always:
- {name: one, rule: 'objects.size() < 9'}
constant:
- {kind: Secret, path: data.password}
ignore:
- kind: Event
- {kind: Site, path: status.seen}
replicas: 2
serviceAccount: {namespace: shop, name: operator}
perturbations: [refuse, missed]
desiredStates:
  only: [{kind: Site, path: spec}]
  skip: [{kind: Site, path: spec.template}]
";

    #[test]
    fn a_file_has_steps_rules_and_times() {
        let file = ScenarioFile::parse(WHOLE).unwrap();
        assert_eq!(file.initial, ["crds", "setup.yaml"]);
        assert_eq!(file.steps[0], FileStep::Apply("site.yaml".to_owned()));
        assert_eq!(file.steps[1], FileStep::Other(Step::Quiet));
        let FileStep::Other(Step::Merge { object, patch, .. }) = &file.steps[2] else {
            panic!("{:?}", file.steps[2]);
        };
        assert_eq!(
            (object.group.as_str(), object.namespace.as_str()),
            ("example.com", "shop")
        );
        assert_eq!(*patch, json!({"spec": {"replicas": 2}}));
        assert_eq!(
            file.steps[3],
            FileStep::Other(Step::Pass(Duration::from_secs(5)))
        );
        let rules = file.rules;
        assert_eq!(
            (
                rules.quiet.as_secs(),
                rules.patience.as_secs(),
                rules.replicas
            ),
            (1, 90, 2)
        );
        assert_eq!(
            (
                rules.always.len(),
                rules.finally.len(),
                rules.constant.len()
            ),
            (1, 0, 1)
        );
        assert_eq!(rules.ignore[0].field, None);
        let account = ("shop".to_owned(), "operator".to_owned());
        assert_eq!(rules.service_account, Some(account));
        assert_eq!(rules.perturbations.unwrap().len(), 2);
        let fields = rules.desired_states;
        assert_eq!((fields.only.len(), fields.skip.len()), (1, 1));
    }

    #[test]
    fn absent_members_have_defaults() {
        let rules = ScenarioFile::parse("initial: a.yaml").unwrap().rules;
        assert_eq!(
            (
                rules.quiet.as_secs(),
                rules.patience.as_secs(),
                rules.replicas
            ),
            (2, 60, 1)
        );
        assert!(rules.perturbations.is_none());
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (text, message) in [
            ("", "the file: it must have one document"),
            ("- a", "the file: it must be an object, and is a list"),
            (
                "steps: []",
                "the file: it has neither initial objects nor steps, so nothing happens",
            ),
            (
                "initial: [a]\nstep: []",
                "the file: there is no member step; the members are initial, steps, quiet, patience, always, finally, constant, ignore, replicas, serviceAccount, perturbations, desiredStates",
            ),
            (
                "steps: [{apply: 3}]",
                "steps[0].apply: it must be a text, and is a number",
            ),
            (
                "steps: [{aply: a}]",
                "steps[0]: there is no member aply; the members are apply, merge, delete, quiet, pass",
            ),
            (
                "steps: [{quiet: {}, pass: 3s}]",
                "steps[0]: a step has one of the members apply, merge, delete, quiet and pass",
            ),
            (
                "steps: [{pass: 3}]",
                "steps[0].pass: it must be a duration such as 2s or 1m30s, and is 3",
            ),
            (
                "steps: [{merge: {apiVersion: v1, kind: Pod, name: a}}]",
                "steps[0].merge: the member patch is missing",
            ),
            (
                "steps: [{delete: {kind: Pod, name: a}}]",
                "steps[0].delete: the member apiVersion is missing",
            ),
            (
                "initial: [a]\nquiet: -1s",
                "quiet: it must be a duration such as 2s or 1m30s, and is \"-1s\"",
            ),
            (
                "initial: [a]\nreplicas: 0",
                "replicas: it must be a number from 1 to 9, and is 0",
            ),
            (
                "initial: [a]\nconstant: [{kind: Secret}]",
                "constant[0]: the member path is missing",
            ),
            (
                "initial: [a]\ndesiredStates: {skip: [{kind: Site}]}",
                "desiredStates.skip[0]: the member path is missing",
            ),
            (
                "initial: [a]\nignore: [{kind: Pod, path: a..b}]",
                "ignore[0].path: a member has no name at offset 1 of the path \"a..b\"",
            ),
        ] {
            assert_eq!(ScenarioFile::parse(text).unwrap_err().to_string(), message);
        }
        let error =
            ScenarioFile::parse("initial: [a]\nalways: [{name: a, rule: 'x'}]").unwrap_err();
        assert_eq!(error.place, "always[0].rule");
        let error = ScenarioFile::parse("initial: [a]\nperturbations: [crash]").unwrap_err();
        assert_eq!(error.place, "perturbations[0]");
        assert!(ScenarioFile::parse("a: [").is_err());
    }
}
