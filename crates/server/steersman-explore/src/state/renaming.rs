//! Machine: gives objects with generated names the names `prefix*1`, `prefix*2` and so on, equally in all runs.

use std::collections::{BTreeMap, HashMap};

use crate::object_id::{ObjectId, ObjectMap};
use crate::state::generated::{GeneratedNames, NameGroup, NamePass};
use crate::state::name_graph::{NameGraph, SortedName};
use crate::state::plain::PlainState;
use crate::state::texts::edit_texts;
use crate::state::varying_paths::VaryingPaths;

/// The numbers of the objects with generated names, as the undisturbed runs have them.
#[derive(Debug)]
pub(super) struct Renaming {
    names: GeneratedNames,
    varying: VaryingPaths,
    numbers: NameNumbers,
}

/// Decides whether an object of a run takes the number of a known object.
type NameSimilarity = fn(&SortedName, &SortedName) -> bool;

/// The objects of each group. The object at index 0 has the number 1.
type NameNumbers = BTreeMap<NameGroup, Vec<SortedName>>;

impl Renaming {
    /// Learns from the states of undisturbed runs, and renames their objects.
    pub(super) fn learn(runs: &mut [PlainState], pass: NamePass) -> Self {
        let objects: Vec<&ObjectMap> = runs.iter().map(|run| &run.objects).collect();
        let names = GeneratedNames::learn(&objects, pass);
        let graphs: Vec<NameGraph> = runs.iter().map(|run| NameGraph::of(run, &names)).collect();
        let contents: Vec<_> = graphs.iter().map(NameGraph::contents).collect();
        let varying = VaryingPaths::learn(&contents);
        let mut numbers = NameNumbers::new();
        for graph in &graphs {
            number(graph, &varying, &mut numbers);
        }
        let learned = Self {
            names,
            varying,
            numbers,
        };
        for (run, graph) in runs.iter_mut().zip(&graphs) {
            learned.rename(run, graph);
        }
        learned
    }

    /// Renames the objects of a world. Objects that the runs do not have get the next numbers.
    pub(super) fn apply(&self, world: &mut PlainState) {
        let graph = NameGraph::of(world, &self.names);
        self.rename(world, &graph);
    }

    /// Renames the objects of a run in the same way as those of a world, with the numbers of all runs.
    fn rename(&self, state: &mut PlainState, graph: &NameGraph) {
        if !graph.is_empty() {
            let new = number(graph, &self.varying, &mut self.numbers.clone());
            rename(state, graph, &new);
        }
    }
}

/// Returns the new names of the objects. An object takes the number of a known object with the same content and
/// references, else of a known object with the same content, else the first number that is left. So a missing object
/// does not change the numbers of other objects. Objects for which no number is left become known objects.
fn number(
    graph: &NameGraph,
    varying: &VaryingPaths,
    numbers: &mut NameNumbers,
) -> HashMap<ObjectId, String> {
    let mut new = HashMap::new();
    let tests: [NameSimilarity; 3] = [
        |one, other| one.surroundings == other.surroundings,
        |one, other| one.content == other.content,
        |_, _| true,
    ];
    for (group, mut objects) in graph.sorted(varying) {
        let known = numbers.entry(group.clone()).or_default();
        let mut free: Vec<usize> = (0..known.len()).collect();
        for is_similar in tests {
            objects.retain(|object| {
                let Some(at) = free
                    .iter()
                    .position(|slot| is_similar(object, &known[*slot]))
                else {
                    return true;
                };
                let slot = free.remove(at);
                new.insert(object.id.clone(), format!("{}{}", group.mask(), slot + 1));
                false
            });
        }
        for object in objects {
            new.insert(
                object.id.clone(),
                format!("{}{}", group.mask(), known.len() + 1),
            );
            known.push(object);
        }
    }
    new
}

fn rename(state: &mut PlainState, graph: &NameGraph, new: &HashMap<ObjectId, String>) {
    let rename = |id: &mut ObjectId| {
        if let Some(name) = new.get(id) {
            name.clone_into(&mut id.name);
        }
        let namespace = graph.namespace(&id.namespace).and_then(|id| new.get(id));
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut id.namespace);
        }
    };
    for (mut id, mut object) in std::mem::take(&mut state.objects) {
        edit_texts(&mut object, &mut |_, text| {
            let named = graph.named(&id.namespace, text)?;
            new.get(named).cloned()
        });
        if let Some(own) = new.get(&id)
            && let Some(name) = object.pointer_mut("/metadata/name")
        {
            *name = own.as_str().into();
        }
        rename(&mut id);
        state.objects.insert(id, object);
    }
    state.holders.rename(rename);
    state.generated.extend(new.values().cloned());
}
