//! Machine: converts operations and schemas of OpenAPI v3 to v2.

use serde_json::{Map, Value, json};

pub(super) fn path(item: Value) -> Value {
    let Value::Object(item) = item else {
        return item;
    };
    let mut of_path = Map::new();
    for (name, mut member) in item {
        if name == "parameters" {
            parameters(&mut member);
        } else {
            member = operation(member);
        }
        of_path.insert(name, member);
    }
    Value::Object(of_path)
}

/// Moves the schema of each parameter into the parameter itself, as v2 requires.
fn parameters(parameters: &mut Value) {
    for parameter in parameters.as_array_mut().into_iter().flatten() {
        if let (Value::Object(schema), Some(parameter)) =
            (parameter["schema"].take(), parameter.as_object_mut())
        {
            parameter.remove("schema");
            parameter.extend(schema);
        }
    }
}

/// Moves the parameters, body and answers of an operation to their positions in v2.
fn operation(mut operation: Value) -> Value {
    let Some(members) = operation.as_object_mut() else {
        return operation;
    };
    let mut taken = members.remove("parameters").unwrap_or_else(|| json!([]));
    parameters(&mut taken);
    if let Some(mut body) = members.remove("requestBody") {
        let (media, schema) = one_schema(&mut body);
        let mut parameter = json!({ "name": "body", "in": "body", "schema": schema });
        if body["required"] == true {
            parameter["required"] = true.into();
        }
        if let Some(list) = taken.as_array_mut() {
            list.push(parameter);
        }
        members.insert("consumes".to_owned(), json!(media));
    }
    if taken != json!([]) {
        members.insert("parameters".to_owned(), taken);
    }
    let mut produces = Vec::new();
    let answers = members.get_mut("responses").and_then(Value::as_object_mut);
    for answer in answers.into_iter().flat_map(Map::values_mut) {
        let (media, schema) = one_schema(answer);
        if !schema.is_null() {
            answer["schema"] = schema;
            produces = media;
        }
    }
    members.insert("produces".to_owned(), json!(produces));
    operation
}

/// Takes the media types of a content out of its holder, and the schema they share.
fn one_schema(holder: &mut Value) -> (Vec<String>, Value) {
    let content = holder.as_object_mut().and_then(|one| one.remove("content"));
    let Some(Value::Object(mut forms)) = content else {
        return (Vec::new(), Value::Null);
    };
    let media = forms.keys().cloned().collect();
    let schema = forms.values_mut().next().map(|form| form["schema"].take());
    (media, schema.unwrap_or_default())
}

/// Rewrites references to point to the definitions of v2. A reference in the `allOf` of a described schema moves
/// beside the description. The recursion is bounded because the nesting of schemas is.
pub(super) fn references(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some([Value::Object(only)]) = members
                .get("allOf")
                .and_then(|all| all.as_array())
                .map(Vec::as_slice)
                && let Some(target) = only.get("$ref").cloned()
            {
                members.remove("allOf");
                members.insert("$ref".to_owned(), target);
            }
            for (name, member) in members {
                match member {
                    Value::String(target) if name == "$ref" => {
                        *target = target.replace("#/components/schemas/", "#/definitions/");
                    }
                    member => references(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(references),
        _ => {}
    }
}

/// Converts the schema of a built-in scalar that has several types: v2 has no `oneOf`, and a text in its place.
pub(super) fn built_in(schema: &mut Value) {
    if let Some(members) = schema.as_object_mut()
        && members.remove("oneOf").is_some()
    {
        members.insert("type".to_owned(), "string".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_reference_stands_beside_its_description() {
        let mut schema = json!({
            "allOf": [{ "$ref": "#/components/schemas/a" }], "description": "A.",
        });
        references(&mut schema);
        assert_eq!(
            schema,
            json!({ "$ref": "#/definitions/a", "description": "A." })
        );
    }
}
