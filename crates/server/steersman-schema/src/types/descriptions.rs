//! Machine: the descriptions of Kubernetes' own types, which are unpacked for a document and dropped with it.
//!
//! The unpacked text has the lines of each type in order: the component name of the type and its description, then
//! one line per field: nothing, the name of the field, the values of an enum with `|` between them, the description.
//! A tab is between the columns. `\n`, `\t` and `\\` in a description are a line break, a tab and a backslash.
//! Lines that start with `#` before the first type are comments.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::ops::Range;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

/// The generated descriptions. `descriptions/NOTICE` names their source and their licence.
static PACKED: &[u8] = include_bytes!("descriptions/descriptions.gz");

/// The descriptions of all built-in types, which take about 0.8 MB.
pub struct Descriptions {
    text: String,
    types: BTreeMap<String, Range<usize>>,
}

impl Descriptions {
    /// Unpacks the descriptions.
    #[must_use]
    pub fn unpack() -> Self {
        let mut text = String::new();
        // The data is part of the program, and a test reads it.
        let _ = GzDecoder::new(PACKED).read_to_string(&mut text);
        let mut types = BTreeMap::new();
        let mut open: Option<(String, usize)> = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if !line.starts_with(['\t', '#']) {
                let name = line.split('\t').next().unwrap_or_default().to_owned();
                if let Some((name, start)) = open.replace((name, at)) {
                    types.insert(name, start..at);
                }
            }
            at += line.len();
        }
        if let Some((name, start)) = open {
            types.insert(name, start..at);
        }
        Self { text, types }
    }

    /// Returns bytes that differ for other descriptions: the checksum and the length.
    #[must_use]
    pub fn tag() -> &'static [u8] {
        PACKED.last_chunk::<8>().map_or(PACKED, |tag| tag)
    }

    /// Returns the description of a field of a type.
    pub fn of_field(&self, component: &str, field: &str) -> String {
        let mut lines = self.fields(component);
        let found = lines.find(|(name, ..)| *name == field);
        found.map(|(.., text)| unescaped(text)).unwrap_or_default()
    }

    /// Adds the descriptions and the values of enums to the schemas of built-in types. A property that is only a
    /// reference becomes an `allOf`, because nothing may stand beside a reference.
    pub fn add_to(&self, schemas: &mut Map<String, Value>) {
        for (component, schema) in schemas {
            let own = self.lines(component).next().unwrap_or_default();
            let Some((_, text)) = own.split_once('\t') else {
                continue;
            };
            if !text.is_empty() {
                schema["description"] = unescaped(text).into();
            }
            let Some(properties) = schema.get_mut("properties") else {
                continue;
            };
            for (field, values, text) in self.fields(component) {
                if let Some(property) = properties.get_mut(field) {
                    add_values(property, values);
                    describe(property, text);
                }
            }
        }
    }

    fn lines(&self, component: &str) -> impl Iterator<Item = &str> {
        let range = self.types.get(component).cloned().unwrap_or_default();
        self.text.get(range).unwrap_or_default().lines()
    }

    /// Returns the name, the values and the escaped description of each field.
    fn fields(&self, component: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        self.lines(component).skip(1).filter_map(|line| {
            let (field, rest) = line.strip_prefix('\t')?.split_once('\t')?;
            let (values, text) = rest.split_once('\t')?;
            Some((field, values, text))
        })
    }
}

impl fmt::Debug for Descriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Descriptions");
        out.field("types", &self.types.len())
            .finish_non_exhaustive()
    }
}

/// Adds the values of an enum to a property, or to the elements of its list or map.
fn add_values(property: &mut Value, values: &str) {
    if values.is_empty() {
        return;
    }
    let of = ["items", "additionalProperties"]
        .into_iter()
        .find(|of| property.get(of).is_some());
    let target = match of {
        Some(of) => &mut property[of],
        None => property,
    };
    target["enum"] = values.split('|').collect();
}

fn describe(property: &mut Value, text: &str) {
    if text.is_empty() {
        return;
    }
    if property.get("$ref").is_some() {
        *property = json!({ "allOf": [property.take()] });
    }
    property["description"] = unescaped(text).into();
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                other => other.unwrap_or_default(),
            },
            letter => letter,
        };
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::openapi::{describe as describe_kind, describe_named};
    use super::*;

    #[test]
    fn types_and_fields_have_their_descriptions_and_enums() {
        let mut schemas = Map::new();
        let pod = describe_kind("v1", "Pod", &mut schemas).unwrap();
        describe_named("meta.v1.ObjectMeta", &mut schemas);
        Descriptions::unpack().add_to(&mut schemas);
        let pod = &schemas[&pod];
        let starts = |value: &Value, words: &str| {
            let text = value["description"].as_str().unwrap_or_default();
            assert!(text.starts_with(words), "{words}: {text}");
        };
        starts(pod, "Pod is a collection of containers");
        starts(&pod["properties"]["apiVersion"], "APIVersion defines");
        let spec = &pod["properties"]["spec"];
        starts(spec, "Specification of the desired behavior");
        assert_eq!(
            spec["allOf"],
            json!([{ "$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec" }])
        );
        let policy = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"];
        starts(policy, "Restart policy for all containers");
        assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
        let text = policy["description"].as_str().unwrap();
        assert!(
            text.contains("\n\nPossible enum values:\n - `\"Always\"`"),
            "{text}"
        );
        // The fields of an embedded struct.
        let volume = &schemas["io.k8s.api.core.v1.Volume"]["properties"]["hostPath"];
        starts(volume, "hostPath represents");
        starts(
            &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.Time"],
            "Time is a wrapper",
        );
    }

    #[test]
    fn nearly_every_field_of_a_kind_is_described() {
        let mut schemas = Map::new();
        for kind in crate::builtin::built_in() {
            describe_kind(&kind.api_version(), &kind.kind, &mut schemas);
        }
        Descriptions::unpack().add_to(&mut schemas);
        let mut bare = Vec::new();
        for (component, schema) in &schemas {
            let properties = schema["properties"].as_object();
            for (field, property) in properties.into_iter().flatten() {
                if property.get("description").is_none() {
                    bare.push(format!("{component}.{field}"));
                }
            }
        }
        assert!(bare.len() < 60, "{}: {bare:?}", bare.len());
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescaped("a\\n\\tb\\\\n"), "a\n\tb\\n");
    }
}
