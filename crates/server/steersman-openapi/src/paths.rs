//! Machine: the operations of a resource in OpenAPI v3, with the names that client generators use (upstream:
//! `apiserver/pkg/endpoints/installer.go`, and `GetOperationIDAndTags` of `apiserver/pkg/endpoints/openapi`).

use serde_json::{Map, Value, json};
use steersman_apimachinery::go::capital;
use steersman_schema::resource::Resource;

use crate::discovery::{ListedSubresource, subresources};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Components<'a> {
    pub(crate) object: &'a str,
    pub(crate) list: &'a str,
    pub(crate) options: &'a str,
    pub(crate) status: &'a str,
}

/// The schema components of patches and of watch events.
pub(crate) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(crate) const EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

#[derive(Default)]
struct Operation<'a> {
    /// The verb in its name, for instance `read`.
    word: &'a str,
    /// The noun in its name, for instance `NamespacedPodStatus`.
    of: String,
    action: &'a str,
    kind: [&'a str; 3],
    parameters: Vec<Value>,
    body: Option<Value>,
    answer: Value,
    /// The possible status codes beside 200.
    codes: &'a [&'a str],
}

const ANSWERS: [&str; 2] = ["application/json", "application/yaml"];
/// The media types of patches. Custom resources lack the last one, strategic merge patch: kubectl then merges itself.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Adds the paths of a resource and of its subresources to the document of its version; `root` is
/// `/api/v1` or the like. `component` returns the schema component of a kind of another group.
pub(crate) fn add(
    resource: &Resource,
    root: &str,
    components: Components<'_>,
    mut component: impl FnMut(&ListedSubresource<'_>) -> Option<String>,
    paths: &mut Map<String, Value>,
) {
    let own = [&*resource.group, &*resource.version, &*resource.kind];
    let plural = &resource.plural;
    let (place, prefix) = if resource.namespaced {
        ("/namespaces/{namespace}", "Namespaced")
    } else {
        ("", "")
    };
    let scope = resource.namespaced.then(|| path_parameter("namespace"));
    let scope: Vec<Value> = scope.into_iter().collect();
    let named: Vec<Value> = std::iter::once(path_parameter("name"))
        .chain(scope.clone())
        .collect();
    let of = format!("{prefix}{}", resource.kind);
    let mut put = |path: String, parameters: &[Value], item: Map<String, Value>| {
        if !item.is_empty() {
            let mut item = item;
            let mut all = parameters.to_vec();
            all.push(query("pretty", "string"));
            item.insert("parameters".to_owned(), Value::Array(all));
            paths.insert(path, Value::Object(item));
        }
    };
    let mut writer = Writer {
        resource,
        components,
        subresource: "",
    };
    let collection = writer.collection(&of, own);
    put(format!("{root}{place}/{plural}"), &scope, collection);
    let object = writer.object(&of, own, components.object, resource.verbs);
    put(format!("{root}{place}/{plural}/{{name}}"), &named, object);
    if resource.namespaced && resource.verbs.contains(&"list") {
        let all = format!("{}ForAllNamespaces", resource.kind);
        let list = writer.selected("list", &all, own, "list", components.list);
        put(format!("{root}/{plural}"), &[], method("get", list));
    }
    if resource.verbs.contains(&"watch") {
        let list = writer.watch(&format!("{of}List"), own, "watchlist");
        let watch = format!("{root}/watch");
        put(format!("{watch}{place}/{plural}"), &scope, list);
        let one = writer.watch(&of, own, "watch");
        put(format!("{watch}{place}/{plural}/{{name}}"), &named, one);
        if resource.namespaced {
            let all = format!("{}ListForAllNamespaces", resource.kind);
            let list = writer.watch(&all, own, "watchlist");
            put(format!("{watch}/{plural}"), &[], list);
        }
    }
    for below in subresources(resource) {
        writer.subresource = below.name;
        let path = format!("{root}{place}/{plural}/{{name}}/{}", below.name);
        let of = format!("{of}{}", capital(below.name));
        let object = || match below.kind == resource.kind {
            true => Some(components.object.to_owned()),
            false => component(&below),
        };
        if let Some(item) = writer.below(&of, &below, object) {
            put(path, &named, item);
        }
    }
}

struct Writer<'a> {
    resource: &'a Resource,
    components: Components<'a>,
    /// The name of the subresource of the operations; empty for the resource itself.
    subresource: &'a str,
}

impl Writer<'_> {
    /// Returns the operations of a subresource. `object` returns the schema component of its kind, if there is one.
    fn below(
        &self,
        of: &str,
        below: &ListedSubresource<'_>,
        object: impl FnOnce() -> Option<String>,
    ) -> Option<Map<String, Value>> {
        let kind = if below.group.is_empty() {
            [&*self.resource.group, &*self.resource.version, below.kind]
        } else {
            [below.group, below.version, below.kind]
        };
        if below.name == "log" {
            return Some(method("get", self.text("read", of, "get", kind)));
        }
        if below.kind.ends_with("Options") {
            return Some(self.connect(of, kind, below.verbs));
        }
        let object = object()?;
        let mut item = self.object(of, kind, &object, below.verbs);
        if below.verbs.contains(&"create") {
            item.extend(method("post", self.create(of, kind, &object)));
        }
        Some(item)
    }

    fn collection(&self, of: &str, kind: [&str; 3]) -> Map<String, Value> {
        let mut item = Map::new();
        for verb in self.resource.verbs {
            match *verb {
                "list" => {
                    let list = self.selected("list", of, kind, "list", self.components.list);
                    item.extend(method("get", list));
                }
                "create" => {
                    let created = self.create(of, kind, self.components.object);
                    item.extend(method("post", created));
                }
                "deletecollection" => {
                    let mut parameters = deletion();
                    parameters.extend(selection());
                    let deleted = self.operation(Operation {
                        word: "delete",
                        of: format!("Collection{of}"),
                        action: "deletecollection",
                        kind,
                        parameters,
                        body: Some(self.options()),
                        answer: json_answer(self.components.status),
                        ..Operation::default()
                    });
                    item.extend(method("delete", deleted));
                }
                _ => {}
            }
        }
        item
    }

    fn object(
        &self,
        of: &str,
        kind: [&str; 3],
        object: &str,
        verbs: &[&str],
    ) -> Map<String, Value> {
        let mut item = Map::new();
        for verb in verbs {
            let (word, http, action, parameters, body, codes): (_, _, _, _, _, &[&str]) =
                match *verb {
                    "get" => ("read", "get", "get", Vec::new(), None, &[]),
                    "update" => {
                        let body = Some(body(&["*/*"], object, true));
                        ("replace", "put", "put", writing(), body, &["201"])
                    }
                    "patch" => {
                        let mut parameters = writing();
                        parameters.push(query("force", "boolean"));
                        let taken = PATCHES.len() - usize::from(!self.resource.built_in);
                        let body = Some(body(&PATCHES[..taken], PATCH, true));
                        ("patch", "patch", "patch", parameters, body, &["201"])
                    }
                    "delete" => {
                        let body = Some(self.options());
                        ("delete", "delete", "delete", deletion(), body, &["202"])
                    }
                    _ => continue,
                };
            let made = self.operation(Operation {
                word,
                of: of.to_owned(),
                action,
                kind,
                parameters,
                body,
                answer: json_answer(
                    if *verb == "delete" && !self.resource.delete_returns_object {
                        self.components.status
                    } else {
                        object
                    },
                ),
                codes,
            });
            item.extend(method(http, made));
        }
        item
    }

    fn create(&self, of: &str, kind: [&str; 3], object: &str) -> Value {
        self.operation(Operation {
            word: "create",
            of: of.to_owned(),
            action: "post",
            kind,
            parameters: writing(),
            body: Some(body(&["*/*"], object, true)),
            answer: json_answer(object),
            codes: &["201", "202"],
        })
    }

    fn watch(&self, of: &str, kind: [&str; 3], action: &str) -> Map<String, Value> {
        method("get", self.selected("watch", of, kind, action, EVENT))
    }

    /// Returns an operation with a query that selects objects, and an answer that may be a stream.
    fn selected(
        &self,
        word: &str,
        of: &str,
        kind: [&str; 3],
        action: &str,
        component: &str,
    ) -> Value {
        let mut answer = json_answer(component);
        answer["application/json;stream=watch"] = answer["application/json"].clone();
        self.operation(Operation {
            word,
            of: of.to_owned(),
            action,
            kind,
            parameters: selection(),
            answer,
            ..Operation::default()
        })
    }

    fn text(&self, word: &str, of: &str, action: &str, kind: [&str; 3]) -> Value {
        self.operation(Operation {
            word,
            of: of.to_owned(),
            action,
            kind,
            answer: json!({"text/plain": {"schema": {"type": "string"}}}),
            ..Operation::default()
        })
    }

    fn connect(&self, of: &str, kind: [&str; 3], verbs: &[&str]) -> Map<String, Value> {
        let mut item = Map::new();
        for verb in verbs {
            let http = match *verb {
                "create" => "post",
                "update" => "put",
                other => other,
            };
            let of = format!("{}{of}", capital(http));
            item.extend(method(http, self.text("connect", &of, "connect", kind)));
        }
        item
    }

    fn about(&self, operation: &Operation<'_>) -> String {
        let kind = &*self.resource.kind;
        let below = match self.subresource {
            "" => String::new(),
            name => format!(" {name} of"),
        };
        match operation.action {
            "get" => format!("read{below} the specified {kind}"),
            "put" => format!("replace{below} the specified {kind}"),
            "patch" => format!("partially update{below} the specified {kind}"),
            "list" if self.resource.built_in => format!("list or watch objects of kind {kind}"),
            "list" => format!("list objects of kind {kind}"),
            "post" => format!("create{below}{}{kind}", article(kind)),
            "delete" => format!("delete{}{kind}", article(kind)),
            "deletecollection" => format!("delete collection of {kind}"),
            "watch" => format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            ),
            "watchlist" => format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
            ),
            // The noun in the name of a connection starts with its method.
            _ => {
                let noun = if self.resource.namespaced {
                    "Namespaced"
                } else {
                    kind
                };
                let method = operation.of.split(noun).next().unwrap_or_default();
                let method = method.to_ascii_uppercase();
                format!("connect {method} requests to{below} {kind}")
            }
        }
    }

    fn options(&self) -> Value {
        body(&["*/*"], self.components.options, false)
    }

    fn operation(&self, operation: Operation<'_>) -> Value {
        let (group, version) = (group_name(&self.resource.group), &self.resource.version);
        let [kind_group, kind_version, kind] = operation.kind;
        let mut responses = Map::new();
        for code in std::iter::once("200").chain(operation.codes.iter().copied()) {
            let about = match code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let answer = json!({"description": about, "content": operation.answer});
            responses.insert(code.to_owned(), answer);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let id = format!(
            "{}{}{}{}",
            operation.word,
            capital(&group),
            capital(version),
            operation.of
        );
        let mut document = json!({
            "tags": [format!("{group}_{version}")],
            "operationId": id,
            "description": self.about(&operation),
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": {
                "group": kind_group, "version": kind_version, "kind": kind,
            },
            "responses": responses,
        });
        if !operation.parameters.is_empty() {
            document["parameters"] = Value::Array(operation.parameters);
        }
        if let Some(body) = operation.body {
            document["requestBody"] = body;
        }
        document
    }
}

/// Returns the article of a noun between two spaces, as upstream's `GetArticleForNoun`.
fn article(noun: &str) -> &'static str {
    let is_plural = noun.ends_with('s') && !noun.ends_with("ss");
    let vowels = ['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U'];
    match noun.starts_with(vowels) {
        _ if is_plural => " ",
        true => " an ",
        false => " a ",
    }
}

fn method(http: &str, operation: Value) -> Map<String, Value> {
    std::iter::once((http.to_owned(), operation)).collect()
}

/// Returns `core`, or the group as one word: `rbacAuthorization`, `exampleCom`.
pub(crate) fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = group.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capital(word))
}

fn parameter(name: &str, place: &str, kind: &str) -> Value {
    json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}})
}

fn query(name: &str, kind: &str) -> Value {
    parameter(name, "query", kind)
}

fn path_parameter(name: &str) -> Value {
    let mut parameter = parameter(name, "path", "string");
    parameter["required"] = true.into();
    parameter
}

fn writing() -> Vec<Value> {
    let names = ["dryRun", "fieldManager", "fieldValidation"];
    names.map(|name| query(name, "string")).into()
}

fn deletion() -> Vec<Value> {
    [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ]
    .map(|(name, kind)| query(name, kind))
    .into()
}

fn selection() -> Vec<Value> {
    [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ]
    .map(|(name, kind)| query(name, kind))
    .into()
}

fn body(media: &[&str], component: &str, required: bool) -> Value {
    let mut body = json!({ "content": content(media, component) });
    if required {
        body["required"] = true.into();
    }
    body
}

fn json_answer(component: &str) -> Value {
    content(&ANSWERS, component)
}

pub(crate) fn reference(component: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{component}") })
}

pub(crate) fn content(media: &[&str], component: &str) -> Value {
    let schema = json!({ "schema": reference(component) });
    let all = media
        .iter()
        .map(|media| ((*media).to_owned(), schema.clone()));
    Value::Object(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_have_their_articles() {
        for (noun, words) in [
            ("Pod", " a "),
            ("Ingress", " an "),
            ("Endpoints", " "),
            ("StorageClass", " a "),
        ] {
            assert_eq!(article(noun), words, "{noun}");
        }
    }

    #[test]
    fn group_names_become_one_word() {
        for (group, name) in [
            ("", "core"),
            ("apps", "apps"),
            ("rbac.authorization.k8s.io", "rbacAuthorization"),
            ("flowcontrol.apiserver.k8s.io", "flowcontrolApiserver"),
            ("my-team.example.com", "myTeamExampleCom"),
        ] {
            assert_eq!(group_name(group), name);
        }
    }
}
