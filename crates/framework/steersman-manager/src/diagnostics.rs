//! Handle: named sections of JSON that show the present state of the parts of a manager.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use steersman_object::panic_text;

/// The diagnostics of a manager: sections of JSON, each with a name. Cheap to clone; clones share the sections.
///
/// The [metrics server](crate::MetricsServer) shows the sections under `/debug/steersman`, unless every client may read
/// its routes: sections may name objects, which labels of metrics never do. The form of the manager's own sections may
/// change with any version.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Diagnostics {{ sections: {:?} }}", self.sections())]
#[must_use]
pub struct Diagnostics {
    sections: Arc<Mutex<Vec<(String, Section)>>>,
}

type Section = Arc<dyn Fn() -> Value + Send + Sync>;

impl Diagnostics {
    /// Adds a section, in place of a section with the same name. The closure is called for each request, and must
    /// neither block nor wait.
    pub fn add(
        &self,
        name: impl Into<String>,
        section: impl Fn() -> Value + Send + Sync + 'static,
    ) {
        let (name, section): (String, Section) = (name.into(), Arc::new(section));
        let mut sections = self.sections.lock();
        let replaced = sections.iter_mut().find(|(known, _)| *known == name);
        match replaced {
            Some((_, known)) => *known = section,
            None => sections.push((name, section)),
        }
    }

    /// Returns the names of the sections, in the order of their adds.
    pub fn sections(&self) -> Vec<String> {
        let sections = self.sections.lock();
        sections.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the content of a section; `None` if no section has this name.
    pub fn section(&self, name: &str) -> Option<Value> {
        let section = {
            let sections = self.sections.lock();
            let found = sections.iter().find(|(known, _)| known == name);
            found.map(|(_, section)| Arc::clone(section))
        };
        // The closure is called outside the lock, because it is code of another part of the program.
        section.map(|section| content(&section))
    }

    /// Returns the content of all sections, by name.
    pub fn all(&self) -> Value {
        let sections = self.sections.lock().clone();
        let content = sections
            .into_iter()
            .map(|(name, section)| (name, content(&section)));
        Value::Object(content.collect::<Map<_, _>>())
    }
}

/// MGR-7: a section that panics affects no other section.
fn content(section: &Section) -> Value {
    catch_unwind(AssertUnwindSafe(|| section()))
        .unwrap_or_else(|payload| json!({ "panic": panic_text(&*payload) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MGR-7
    #[test]
    fn a_section_that_panics_affects_no_other_section() {
        let diagnostics = Diagnostics::default();
        diagnostics.add("good", || json!(1));
        diagnostics.add("bad", || panic!("broken"));
        diagnostics.add("good", || json!(2));
        assert_eq!(
            diagnostics.all(),
            json!({ "good": 2, "bad": { "panic": "broken" } })
        );
        assert_eq!(diagnostics.section("good"), Some(json!(2)));
        assert_eq!(diagnostics.section("missing"), None);
        assert_eq!(diagnostics.sections(), ["good", "bad"]);
    }
}
