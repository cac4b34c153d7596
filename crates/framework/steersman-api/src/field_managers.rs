//! Handle: the field managers with applies that are recognised.

use std::sync::Arc;

use memchr::memmem::Finder;
use parking_lot::RwLock;

/// The field managers with recognised applies: those of programs, and those of their controllers, named
/// `program/controller`. Cheap to clone; clones share the names.
#[derive(Clone, Debug, Default)]
pub struct FieldManagers {
    known: Arc<RwLock<Arc<[KnownManager]>>>,
}

#[derive(Clone, Debug)]
struct KnownManager {
    name: String,
    finder: Finder<'static>,
}

impl FieldManagers {
    /// Adds a program. Objects that arrived before are not examined again.
    pub fn note(&self, program: &str) {
        let mut known = self.known.write();
        if program.is_empty() || known.iter().any(|known| known.name == program) {
            return;
        }
        let added = KnownManager {
            name: program.to_owned(),
            finder: Finder::new(program).into_owned(),
        };
        *known = known.iter().cloned().chain([added]).collect();
    }

    /// Returns whether the bytes of an object contain the name of a known manager anywhere. Fast, because each arriving
    /// object is searched.
    pub(crate) fn may_own_fields_of(&self, object: &[u8]) -> bool {
        let known = self.known();
        known
            .iter()
            .any(|known| known.finder.find(object).is_some())
    }

    pub(crate) fn know(&self, manager: &str) -> bool {
        self.known().iter().any(|known| known.is(manager))
    }

    fn known(&self) -> Arc<[KnownManager]> {
        Arc::clone(&self.known.read())
    }
}

impl KnownManager {
    fn is(&self, manager: &str) -> bool {
        let rest = manager.strip_prefix(&*self.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
