//! Machine: the variables that expressions of admission policies and webhooks may use, and the types of their values.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/cel`.

use std::sync::LazyLock;

use crate::authorizer;
use crate::program::Program;
use crate::types::{Decl, Type};

/// The variable that holds an authorization check of the requested resource; an expression adds only the verb.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// The fields of the variable `request`: a subset of the fields of the `AdmissionRequest` that a webhook receives.
pub static REQUEST: LazyLock<Decl> = LazyLock::new(request);
/// The fields of the variable `namespaceObject`, the Namespace of the object.
pub static NAMESPACE: LazyLock<Decl> = LazyLock::new(namespace);

/// The variables that an admission expression may use, with their types.
#[derive(Debug, Clone)]
pub struct Environment {
    known: Vec<(&'static str, Type)>,
    /// The variables of the policy (`spec.variables`), with their types; expressions use them as `variables.name`.
    made: Vec<(String, Decl)>,
}

impl Environment {
    /// Creates an environment with the variables that every policy has. `params` adds the variable `params`, and
    /// `authorizer` adds `authorizer` and `authorizer.requestResource`.
    pub fn new(params: bool, authorizer: bool) -> Self {
        let mut known = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("namespaceObject", NAMESPACE.kind.clone()),
            ("request", REQUEST.kind.clone()),
        ];
        if params {
            known.push(("params", Type::Dyn));
        }
        if authorizer {
            known.push(("authorizer", Type::Opaque(authorizer::AUTHORIZER)));
            known.push((REQUEST_RESOURCE, Type::Opaque(authorizer::RESOURCE_CHECK)));
        }
        let made = Vec::new();
        Self { known, made }
    }

    /// Returns a copy of the environment without the variables `authorizer` and `authorizer.requestResource`.
    #[must_use]
    pub fn without_authorizer(&self) -> Self {
        let mut less = self.clone();
        let asks = |name: &str| name == "authorizer" || name == REQUEST_RESOURCE;
        less.known.retain(|(name, _)| !asks(name));
        less
    }

    /// Returns a copy of the environment with `Object` and `JSONPatch`, the types that mutating policies return.
    #[must_use]
    pub fn with_changes(&self) -> Self {
        let mut more = self.clone();
        for name in ["Object", "JSONPatch"] {
            let kind = Type::message(name).unwrap_or(Type::Dyn);
            more.known.push((name, Type::Of(kind.into())));
        }
        more
    }

    /// Declares a variable of the policy, which later expressions can use as `variables.name`.
    pub fn declare(&mut self, name: &str, kind: Type) {
        self.made.push((name.to_owned(), Decl::of_type(kind)));
    }

    /// Compiles an expression. If `results` is not empty, the value of the expression must have one of these types.
    ///
    /// # Errors
    /// Fails with all errors of the expression, in the words and the layout of kube-apiserver.
    pub fn compile(&self, expression: &str, results: &[Type]) -> Result<Program, String> {
        let mut variables = self.known.clone();
        if !self.made.is_empty() {
            let made = self.made.iter();
            let made = made.map(|(name, decl)| (name.as_str(), decl.clone()));
            let kind = Decl::of_fields("kubernetes.variables", made).kind;
            variables.push(("variables", kind));
        }
        let program = Program::compile(expression, &variables).map_err(|why| why.to_string())?;
        let found = program.result();
        if results.is_empty() || results.contains(found) {
            return Ok(program);
        }
        let named = |kind: &Type| match kind {
            Type::Null | Type::Duration | Type::Timestamp => kind.name().to_owned(),
            kind => kind.to_string(),
        };
        let names: Vec<String> = results.iter().map(named).collect();
        let wanted = match names.as_slice() {
            [one] => one.clone(),
            several => format!("one of [{}]", several.join(" ")),
        };
        let found = named(found);
        Err(format!("must evaluate to {wanted} but got {found}"))
    }
}

fn text() -> Decl {
    Decl::of_type(Type::String)
}

fn texts<const N: usize>(name: &str, fields: [&str; N]) -> Decl {
    Decl::of_fields(name, fields.map(|field| (field, text())))
}

fn list(items: Decl) -> Decl {
    let kind = Type::list(items.kind.clone());
    Decl::of_items(kind, items)
}

fn map(values: Decl) -> Decl {
    let kind = Type::map(Type::String, values.kind.clone());
    Decl::of_items(kind, values)
}

fn request() -> Decl {
    let kind = texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = ["group", "version", "resource"];
    let resource = texts("kubernetes.GroupVersionResource", resource);
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", list(text())),
        ("extra", map(list(text()))),
    ];
    let all = [
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("subResource", text()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", Decl::of_fields("kubernetes.UserInfo", user)),
        ("dryRun", Decl::of_type(Type::Bool)),
        ("options", Decl::of_type(Type::Dyn)),
    ];
    Decl::of_fields("kubernetes.AdmissionRequest", all)
}

fn namespace() -> Decl {
    let time = || Decl::of_type(Type::Timestamp);
    let number = || Decl::of_type(Type::Int);
    let condition = [
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
    ];
    let condition = Decl::of_fields("kubernetes.NamespaceCondition", condition);
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("generation", number()),
        ("resourceVersion", text()),
        ("finalizers", list(text())),
    ];
    let metadata = Decl::of_fields("kubernetes.NamespaceMetadata", metadata);
    let spec = [("finalizers", list(text()))];
    let spec = Decl::of_fields("kubernetes.NamespaceSpec", spec);
    let status = [("conditions", list(condition)), ("phase", text())];
    let status = Decl::of_fields("kubernetes.NamespaceStatus", status);
    let all = [("metadata", metadata), ("spec", spec), ("status", status)];
    Decl::of_fields("kubernetes.Namespace", all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_typed() {
        let mut environment = Environment::new(true, true);
        environment.declare("few", Type::Bool);
        let bool = [Type::Bool];
        let refused = |expression: &str| environment.compile(expression, &bool).unwrap_err();
        for fine in [
            "object.spec.replicas < 5",
            "request.namespace == 'a' && request.userInfo.groups.exists(g, g == 'b')",
            "namespaceObject.metadata.labels['a'] == 'b' || variables.few",
            "has(params.a)",
        ] {
            assert!(environment.compile(fine, &bool).is_ok(), "{fine}");
        }
        assert_eq!(refused("1 + 1"), "must evaluate to bool but got int");
        assert_eq!(refused("object.a"), "must evaluate to bool but got dyn");
        assert_eq!(
            refused("variables.many"),
            "compilation failed: ERROR: <input>:1:10: undefined field 'many'\n | variables.many\n | .........^"
        );
        assert!(refused("request.uid == 'a'").contains("undefined field 'uid'"));
        assert!(
            environment
                .without_authorizer()
                .compile("authorizer == null", &bool)
                .is_err()
        );
        for fine in [
            "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('b').check('get').allowed()",
            "authorizer.path('/healthz').check('get').reason() == ''",
            "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').errored()",
            "authorizer.requestResource.check('approve').error() == ''",
            "object.list.all(authorizer, authorizer.requestResource)",
        ] {
            assert!(environment.compile(fine, &bool).is_ok(), "{fine}");
        }
        assert!(refused("authorizer.check('get')").contains("found no matching overload for 'check' applied to 'kubernetes.authorization.Authorizer.(string)'"));
        assert!(refused("Object{} == Object{}").contains("undeclared reference to 'Object'"));
        let either = [Type::String, Type::Null];
        assert_eq!(
            environment.compile("1", &either).unwrap_err(),
            "must evaluate to one of [string null_type] but got int"
        );
    }

    #[test]
    fn changes_are_typed() {
        let environment = Environment::new(false, true).with_changes();
        let object = [Type::message("Object").unwrap()];
        let patch = [Type::list(Type::message("JSONPatch").unwrap())];
        for fine in [
            "Object{}",
            "Object{spec: Object.spec{replicas: 3, ?paused: optional.none()}}",
            "has(object.spec) ? Object{} : Object{metadata: Object.metadata{labels: {'a': 'b'}}}",
        ] {
            assert!(environment.compile(fine, &object).is_ok(), "{fine}");
        }
        for fine in [
            "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: Object.a{b: 1}}]",
            "object.a == 1 ? [] : [JSONPatch{op: 'test', path: '/a', value: 1}]",
            "object.l.map(one, JSONPatch{op: 'remove', path: '/' + one})",
        ] {
            assert!(environment.compile(fine, &patch).is_ok(), "{fine}");
        }
        let refused = |expression: &str, results: &[Type]| {
            environment.compile(expression, results).unwrap_err()
        };
        assert_eq!(
            refused("Object.spec{}", &object),
            "must evaluate to Object but got Object.spec"
        );
        assert_eq!(
            refused("[]", &patch),
            "must evaluate to list(JSONPatch) but got list(dyn)"
        );
        for (wrong, why) in [
            (
                "[JSONPatch{op: 1}]",
                "expected type of field 'op' is 'string' but provided type is 'int'",
            ),
            ("[JSONPatch{ops: ''}]", "undefined field 'ops'"),
            ("[Objects{}]", "undeclared reference to 'Objects'"),
            ("[JSONPatch.a{}]", "undeclared reference to 'JSONPatch.a'"),
        ] {
            let message = refused(wrong, &patch);
            assert!(message.contains(why), "{wrong}: {message}");
        }
    }
}
