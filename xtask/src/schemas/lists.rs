//! Writes the table of lists: the part of the table of types that a client needs for strategic merge
//! patches. It holds the lists that merge and the fields that lead to them.

use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "\
# The lists that a strategic merge patch merges, and the fields that lead to them, one of Kubernetes' own types per
# line. `cargo xtask schemas` generates this file; lists.rs describes the format. Do not edit.
";

/// A field that is a merging list or may lead to one.
struct FieldType<'a> {
    /// What the table has for a merging list: `[name]` if it is merged by a key, `[]` if it is a set.
    merging: Option<String>,
    is_map: bool,
    /// The type of the field, of the elements of the list or of the values of the map.
    next: &'a str,
}

/// A type: its `apiVersion` if it is a kind, and its fields.
type Fields<'a> = (Option<&'a str>, BTreeMap<&'a str, FieldType<'a>>);

/// Returns the table of lists, made from the table of types. A map with values that lead to a merging list is an error.
pub(super) fn write(types: &str) -> Result<String, String> {
    let types = types.lines().filter(|line| !line.starts_with('#'));
    let types: BTreeMap<&str, Fields<'_>> = types.filter_map(read).collect();
    let mut leading = BTreeSet::new();
    loop {
        let more = types.iter().filter(|(name, (_, fields))| {
            let mut field_types = fields.values();
            !leading.contains(*name) && field_types.any(|field_type| field_type.leads(&leading))
        });
        let more: Vec<&str> = more.map(|(name, _)| *name).collect();
        if more.is_empty() {
            break;
        }
        leading.extend(more);
    }
    let reached = reached(&types, &leading);
    let mut text = HEADER.to_owned();
    for (name, (version, fields)) in types {
        if !reached.contains(name) {
            continue;
        }
        text.push_str(name);
        if let Some(version) = version {
            text.push_str(&format!(" @kind:{version}"));
        }
        for (field, field_type) in fields.iter().filter(|(_, found)| found.leads(&leading)) {
            if field_type.is_map {
                return Err(format!(
                    "{name}.{field} is a map that leads to a merging list"
                ));
            }
            let merging = field_type.merging.as_deref().unwrap_or_default();
            let next = Some(field_type.next).filter(|next| leading.contains(next));
            text.push_str(&format!(" {field}:{merging}{}", next.unwrap_or_default()));
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns the types that the kinds lead to.
fn reached<'a>(
    types: &BTreeMap<&'a str, Fields<'a>>,
    leading: &BTreeSet<&'a str>,
) -> BTreeSet<&'a str> {
    let kinds = types.iter().filter(|(_, (version, _))| version.is_some());
    let mut waiting: Vec<&str> = kinds.map(|(name, _)| *name).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some((_, fields)) = types.get(name).filter(|_| leading.contains(name)) else {
            continue;
        };
        if reached.insert(name) {
            waiting.extend(fields.values().map(|field_type| field_type.next));
        }
    }
    reached
}

impl FieldType<'_> {
    fn leads(&self, leading: &BTreeSet<&str>) -> bool {
        self.merging.is_some() || leading.contains(self.next)
    }
}

fn read(line: &str) -> Option<(&str, Fields<'_>)> {
    let (name, words) = line.split_once(' ')?;
    let words = words.split(' ');
    let version = words.clone().find_map(|word| word.strip_prefix("@kind:"));
    let fields = words.filter(|word| !word.starts_with('@'));
    let fields = fields.filter_map(|word| {
        let (field, kind) = word.split_once(':')?;
        Some((field.trim_end_matches('!'), field_type(kind)?))
    });
    Some((name, (version, fields.collect())))
}

/// Returns the form of a field, or `None` if a strategic merge patch replaces it.
fn field_type(kind: &str) -> Option<FieldType<'_>> {
    let (mut merging, mut is_map, mut next) = (None, false, kind);
    if let Some((rules, items)) = kind.strip_prefix('[').and_then(|kind| kind.split_once(']')) {
        let key = match rules.split_once('|') {
            Some((_, "union")) => "",
            Some((_, patch)) => patch.strip_prefix("by:")?,
            None => rules
                .strip_prefix("map:")
                .filter(|keys| !keys.contains(','))?,
        };
        (merging, next) = (Some(format!("[{key}]")), items);
    } else if let Some((_, values)) = kind.strip_prefix('{').and_then(|kind| kind.split_once('}')) {
        (is_map, next) = (true, values);
    }
    Some(FieldType {
        merging,
        is_map,
        next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_lead_to_no_merging_list_are_left_out() {
        let types = "\
# a header
a.Kind @kind:g/v1 apiVersion:string metadata:a.Meta plain:a.Plain spec!:a.Spec
a.Item name!:string
a.Meta finalizers:[set|union]string labels:{}string
a.Unused items:[map:name]a.Item
a.Plain names:[]string set:[set]string
a.Spec by:{}a.Plain items!:[map:name]a.Item metas:[map:p,q=x|by:p]a.Meta whole:[map:type|replace]a.Item
";
        let expected = "\
a.Kind @kind:g/v1 metadata:a.Meta spec:a.Spec
a.Meta finalizers:[]
a.Spec items:[name] metas:[p]a.Meta
";
        assert_eq!(write(types).unwrap().strip_prefix(HEADER), Some(expected));
        let map = types.replace("by:{}a.Plain", "by:{}a.Meta");
        assert!(write(&map).unwrap_err().contains("a.Spec.by"));
    }
}
