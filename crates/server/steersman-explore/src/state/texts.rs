//! Machine: visits and replaces the texts of a JSON value, and tells the place of each.

use serde_json::Value;

/// The place of a text in an object. Items of lists have no numbers, so that a place does not depend on the order of a
/// list.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextPlace<'a> {
    parent: Option<&'a Self>,
    step: PathStep<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathStep<'a> {
    Root,
    Member(&'a str),
    Item,
    /// The name of a member, as a text of its own.
    Key,
}

/// Decides about a text: returns the text that replaces it, or `None` to keep it.
pub(super) type EditText<'a> = dyn FnMut(&TextPlace<'_>, &str) -> Option<String> + 'a;

impl<'a> TextPlace<'a> {
    /// The place of an object itself.
    pub(super) const ROOT: TextPlace<'static> = TextPlace {
        parent: None,
        step: PathStep::Root,
    };

    fn below(&'a self, step: PathStep<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    /// Returns whether the text is the name of a member, not a value.
    pub(super) fn is_key(&self) -> bool {
        self.step == PathStep::Key
    }

    /// Returns the name of the innermost member around the text; empty if there is none.
    pub(super) fn member_name(&self) -> &'a str {
        let mut place = *self;
        loop {
            match (place.step, place.parent) {
                (PathStep::Member(name), _) => return name,
                (_, Some(parent)) => place = *parent,
                (_, None) => return "",
            }
        }
    }

    /// Returns the steps from the object to the text: names of members, `[]` for an item, `*` for the name of a member.
    pub(super) fn steps(&self) -> Vec<&'a str> {
        let mut steps = Vec::new();
        let mut place = *self;
        while let Some(parent) = place.parent {
            steps.push(match place.step {
                PathStep::Root => "",
                PathStep::Member(name) => name,
                PathStep::Item => "[]",
                PathStep::Key => "*",
            });
            place = *parent;
        }
        steps.reverse();
        steps
    }

    /// Returns whether the text is the uid of an owner reference.
    pub(super) fn is_owner_uid(&self) -> bool {
        self.member_name() == "uid" && self.steps() == ["metadata", "ownerReferences", "[]", "uid"]
    }
}

/// Visits each text of a value, and the name of each member.
pub(super) fn visit_texts(value: &Value, visit: &mut dyn FnMut(&TextPlace<'_>, &str)) {
    visit_at(value, &TextPlace::ROOT, visit);
}

fn visit_at(value: &Value, place: &TextPlace<'_>, visit: &mut dyn FnMut(&TextPlace<'_>, &str)) {
    match value {
        Value::String(text) => visit(place, text),
        Value::Array(items) => {
            for item in items {
                visit_at(item, &place.below(PathStep::Item), visit);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                visit(&place.below(PathStep::Key), name);
                visit_at(member, &place.below(PathStep::Member(name)), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces texts of a value, and names of members. A member keeps its name if another member has the new name.
pub(super) fn edit_texts(value: &mut Value, edit: &mut EditText<'_>) {
    edit_at(value, &TextPlace::ROOT, edit);
}

fn edit_at(value: &mut Value, place: &TextPlace<'_>, edit: &mut EditText<'_>) {
    match value {
        Value::String(text) => {
            if let Some(new) = edit(place, text) {
                *text = new;
            }
        }
        Value::Array(items) => {
            for item in items {
                edit_at(item, &place.below(PathStep::Item), edit);
            }
        }
        Value::Object(members) => {
            let mut renamed = Vec::new();
            for (name, member) in members.iter_mut() {
                if let Some(new) = edit(&place.below(PathStep::Key), name) {
                    renamed.push((name.clone(), new));
                }
                edit_at(member, &place.below(PathStep::Member(name)), edit);
            }
            for (old, new) in renamed {
                if !members.contains_key(&new)
                    && let Some(member) = members.remove(&old)
                {
                    members.insert(new, member);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_text_has_a_place_without_numbers_of_items() {
        let value = json!({"a": [{"b": "x"}, "y"], "c": 1});
        let mut found = Vec::new();
        visit_texts(&value, &mut |place, text| {
            found.push((
                place.steps().join("."),
                place.member_name().to_owned(),
                text.to_owned(),
            ));
        });
        let own = |(steps, member, text): (&str, &str, &str)| {
            (steps.to_owned(), member.to_owned(), text.to_owned())
        };
        let expected = [
            ("*", "", "a"),
            ("a.[].*", "a", "b"),
            ("a.[].b", "b", "x"),
            ("a.[]", "a", "y"),
            ("*", "", "c"),
        ];
        assert_eq!(found, expected.map(own));
    }

    #[test]
    fn a_member_is_not_renamed_to_the_name_of_another_member() {
        let mut value = json!({"a": "a", "b": {"a": "b"}});
        edit_texts(&mut value, &mut |_, text| {
            (text == "a").then(|| "b".to_owned())
        });
        assert_eq!(value, json!({"a": "b", "b": {"b": "b"}}));
    }

    #[test]
    fn only_the_uid_of_an_owner_reference_is_an_owner_uid() {
        let value =
            json!({"metadata": {"ownerReferences": [{"uid": "1"}], "uid": "2"}, "uid": "3"});
        let mut found = Vec::new();
        visit_texts(&value, &mut |place, text| {
            if place.is_owner_uid() {
                found.push(text.to_owned());
            }
        });
        assert_eq!(found, ["1"]);
    }
}
