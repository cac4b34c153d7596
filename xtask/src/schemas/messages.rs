//! Machine: writes the table of protobuf messages: their fields come from Go's structs, and the kinds from the table
//! of types.

use std::collections::{BTreeMap, BTreeSet};

use super::go_types::{GoField, GoTypes};
use super::table;

const HEADER: &str = "\
# The protobuf messages of Kubernetes' own types, one message per line: its name, `@` and the apiVersion if it is a
# kind, and its fields as `number:name=kind`. `cargo xtask schemas --go DIR` generates this file from Kubernetes' Go
# types. The format is described in crates/framework/steersman-protobuf/src/table.rs. Do not edit.
";

/// The types of the aggregator, which is in none of the modules, and the metadata of any object, which Go declares for
/// two versions at once.
const OTHERS: &str = "\
apiregistration.v1.APIService @apiregistration.k8s.io/v1 1:metadata!=meta.v1.ObjectMeta 2:spec!=apiregistration.v1.APIServiceSpec 3:status!=apiregistration.v1.APIServiceStatus
apiregistration.v1.APIServiceCondition 1:type!=string 2:status!=string 3:lastTransitionTime!=time 4:reason=string 5:message=string
apiregistration.v1.APIServiceSpec 1:service*=apiregistration.v1.ServiceReference 2:group=string 3:version=string 4:insecureSkipTLSVerify=bool 5:caBundle=bytes 7:groupPriorityMinimum!=int32 8:versionPriority!=int32
apiregistration.v1.APIServiceStatus 1:conditions=[]apiregistration.v1.APIServiceCondition
apiregistration.v1.ServiceReference 1:namespace=string 2:name=string 3:port*=int32
meta.v1.PartialObjectMetadata @meta.k8s.io/v1 1:metadata!=meta.v1.ObjectMeta
";

/// Messages that are no kind and belong to none.
const ROOTS: [&str; 2] = ["meta.v1.DeleteOptions", "meta.v1.ListMeta"];

/// Types with another form in JSON than in protobuf.
const SCALARS: &[(&str, &str)] = &[
    ("apiextensions.v1.JSON", "raw"),
    ("apiextensions.v1.JSONSchemaPropsOrArray", "schemaOrArray"),
    ("apiextensions.v1.JSONSchemaPropsOrBool", "schemaOrBool"),
    (
        "apiextensions.v1.JSONSchemaPropsOrStringArray",
        "schemaOrStrings",
    ),
    ("authentication.v1.ExtraValue", "strings"),
    ("authorization.v1.ExtraValue", "strings"),
    ("certificates.v1.ExtraValue", "strings"),
    ("intstr.IntOrString", "intOrString"),
    ("meta.v1.FieldsV1", "raw"),
    ("meta.v1.MicroTime", "microTime"),
    ("meta.v1.Time", "time"),
    ("resource.Quantity", "quantity"),
    ("runtime.RawExtension", "raw"),
];

/// Returns the table: the messages of all kinds in the table of types.
pub(super) fn write(types: &str, go: &GoTypes) -> Result<String, String> {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for line in OTHERS.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        lines.insert(name.to_owned(), line.to_owned());
    }
    // `OTHERS` has the line of the aggregator's kind.
    let kinds: BTreeMap<&str, &str> = table::types(types)
        .filter(|(name, _)| !name.starts_with("apiregistration."))
        .filter_map(|(name, api_version)| Some((name, api_version?)))
        .collect();
    let mut waiting: Vec<String> = kinds.keys().map(|name| (*name).to_owned()).collect();
    waiting.extend(ROOTS.map(str::to_owned));
    let mut seen: BTreeSet<String> = lines.keys().cloned().collect();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let fields = go.structs.get(&name);
        let fields = fields.ok_or_else(|| format!("no Go source declares the struct {name}"))?;
        let mut line = name.clone();
        if let Some(api_version) = kinds.get(name.as_str()) {
            line.push_str(&format!(" @{api_version}"));
        }
        let mut fields: Vec<&GoField> = fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        for field in fields {
            let kind =
                kind(go, &field.ty).map_err(|why| format!("{name}.{}: {why}", field.json))?;
            let (number, json, mark) = (field.number, &field.json, mark(field, &kind));
            line.push_str(&format!(" {number}:{json}{mark}={kind}"));
            let message = kind.trim_start_matches("[]").trim_start_matches("{}");
            if message.contains('.') {
                waiting.push(message.to_owned());
            }
            if kind.contains("schemaOr") {
                waiting.push("apiextensions.v1.JSONSchemaProps".to_owned());
            }
        }
        lines.insert(name, line);
    }
    let lines: Vec<String> = lines.into_values().collect();
    Ok(format!("{HEADER}{}\n", lines.join("\n")))
}

/// Returns the mark of a field: `*` for a pointer, `?` for a pointer that Go's JSON always has, and `!` for another value
/// that Go's JSON always has.
fn mark(field: &GoField, kind: &str) -> &'static str {
    // `omitempty` has no effect on structs.
    let is_struct = kind.contains('.')
        || matches!(
            kind,
            "intOrString" | "microTime" | "quantity" | "raw" | "time"
        );
    let repeated = kind.starts_with("[]") || kind.starts_with("{}");
    let omits = field.omitzero || (field.omitempty && (!is_struct || repeated));
    match () {
        () if field.json.is_empty() => "",
        () if field.ty.starts_with('*') && (field.omitempty || field.omitzero) => "*",
        () if field.ty.starts_with('*') => "?",
        () if omits => "",
        () => "!",
    }
}

/// Returns the type of a field as the table spells it.
fn kind(go: &GoTypes, ty: &str) -> Result<String, String> {
    let ty = ty.trim_start_matches('*');
    if let Some((_, scalar)) = SCALARS.iter().find(|(name, _)| *name == ty) {
        return Ok((*scalar).to_owned());
    }
    if let Some(of) = go.named.get(ty) {
        return kind(go, of);
    }
    if let Some(items) = ty.strip_prefix("[]").filter(|items| *items != "byte") {
        return Ok(format!("[]{}", kind(go, items)?));
    }
    if let Some((_, values)) = ty.strip_prefix("map[").and_then(|ty| ty.split_once(']')) {
        return Ok(format!("{{}}{}", kind(go, values)?));
    }
    Ok(match ty {
        "[]byte" => "bytes",
        "float64" => "double",
        "types.UID" => "string",
        "string" | "bool" | "int32" | "int64" => ty,
        _ if go.structs.contains_key(ty) => ty,
        _ => return Err(format!("the table has no form for the Go type {ty}")),
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(ty: &str, omitempty: bool, omitzero: bool) -> GoField {
        GoField {
            ty: ty.to_owned(),
            json: "field".to_owned(),
            omitempty,
            omitzero,
            number: 1,
            comment: Vec::new(),
        }
    }

    #[test]
    fn marks_say_when_json_has_a_field() {
        let go = GoTypes::default();
        for (ty, omitempty, omitzero, wanted) in [
            ("*string", true, false, "*"),
            ("*string", false, false, "?"),
            ("string", true, false, ""),
            ("string", false, false, "!"),
            ("[]string", false, false, "!"),
            ("meta.v1.Time", true, false, "!"),
            ("meta.v1.Time", true, true, ""),
            ("*meta.v1.Time", true, false, "*"),
            ("map[string]resource.Quantity", true, false, ""),
        ] {
            let field = field(ty, omitempty, omitzero);
            let kind = kind(&go, ty).unwrap();
            assert_eq!(mark(&field, &kind), wanted, "{ty} {omitempty} {omitzero}");
        }
    }
}
