//! Machine: puts objects with generated names in an order that does not depend on their names.
//!
//! Objects of one group are sorted by their content. Objects with the same content are told apart by the objects that
//! they refer to, and by the objects that refer to them: of two Pods with the same content, the Pod that uses the first
//! volume comes first. The algorithm is colour refinement (Weisfeiler and Leman, 1968). The order of objects that it
//! cannot tell apart has no meaning.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::object_id::ObjectId;
use crate::state::generated::{GeneratedNames, NameGroup, is_namespace};
use crate::state::lists::{Content, content, sort_lists};
use crate::state::plain::PlainState;
use crate::state::texts::{edit_texts, visit_texts};
use crate::state::varying_paths::VaryingPaths;

/// The length of the longest chain of references by which objects are told apart.
const ROUNDS: usize = 4;

/// The maximum number of equal objects that are ordered one after another; more of them are sorted by their names.
const MOST_TIES: usize = 500;

/// The objects of a state with generated names, and the references between objects.
#[derive(Debug)]
pub(super) struct NameGraph {
    nodes: Vec<NameNode>,
    by_id: HashMap<ObjectId, usize>,
    /// The objects by name and namespace. Of objects of several kinds with the same name, the first counts.
    by_name: HashMap<String, BTreeMap<String, usize>>,
}

#[derive(Debug)]
struct NameNode {
    id: ObjectId,
    group: NameGroup,
    content: Content,
    links: Vec<NameLink>,
}

/// A reference from or to an object.
#[derive(Debug, Clone, Copy)]
struct NameLink {
    /// The hash of the direction, and of the place of the text.
    label: u64,
    end: LinkEnd,
}

#[derive(Debug, Clone, Copy)]
enum LinkEnd {
    Node(usize),
    /// The hash of an object with a chosen name.
    Chosen(u64),
}

/// An object with a generated name, in the order of its group.
#[derive(Debug, Clone)]
pub(super) struct SortedName {
    pub(super) id: ObjectId,
    /// The hash of the content.
    pub(super) content: u64,
    /// The hash of the content and of the references.
    pub(super) surroundings: u64,
}

impl NameGraph {
    /// Finds the objects with generated names, and the references of all objects.
    pub(super) fn of(state: &PlainState, names: &GeneratedNames) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            by_id: HashMap::new(),
            by_name: HashMap::new(),
        };
        for (id, object) in &state.objects {
            if let Some(group) = names.group(id, object) {
                let at = graph.nodes.len();
                graph.by_id.insert(id.clone(), at);
                let namespaces = graph.by_name.entry(id.name.clone()).or_default();
                namespaces.entry(id.namespace.clone()).or_insert(at);
                let (id, content, links) = (id.clone(), Content::new(), Vec::new());
                graph.nodes.push(NameNode {
                    id,
                    group,
                    content,
                    links,
                });
            }
        }
        if !graph.nodes.is_empty() {
            graph.read_contents(state);
            graph.link(state);
        }
        graph
    }

    /// Returns whether no object has a generated name.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the object that a text in an object of a namespace names by its generated name: an object of the same
    /// namespace, or without a namespace, or the only object with this name.
    pub(super) fn named(&self, namespace: &str, text: &str) -> Option<&ObjectId> {
        self.node_named(namespace, text)
            .map(|at| &self.nodes[at].id)
    }

    fn node_named(&self, namespace: &str, text: &str) -> Option<usize> {
        let namespaces = self.by_name.get(text)?;
        let near = namespaces.get(namespace).or_else(|| namespaces.get(""));
        near.copied().or_else(|| {
            let mut all = namespaces.values().copied();
            let only = all
                .next()
                .filter(|at| !self.nodes[*at].group.prefix.is_empty());
            only.filter(|_| all.next().is_none())
        })
    }

    /// Returns the identity with the masks of generated names.
    fn masked(&self, id: &ObjectId) -> ObjectId {
        let mut masked = id.clone();
        if let Some(at) = self.by_id.get(id) {
            masked.name = self.nodes[*at].group.mask();
        }
        if let Some(at) = self.namespace_node(&id.namespace) {
            masked.namespace = self.nodes[at].group.mask();
        }
        masked
    }

    /// Returns the Namespace object of a namespace with a generated name.
    pub(super) fn namespace(&self, namespace: &str) -> Option<&ObjectId> {
        self.namespace_node(namespace).map(|at| &self.nodes[at].id)
    }

    fn namespace_node(&self, namespace: &str) -> Option<usize> {
        let at = *self.by_name.get(namespace)?.get("")?;
        is_namespace(&self.nodes[at].id).then_some(at)
    }

    fn read_contents(&mut self, state: &PlainState) {
        let masks = self.nodes.iter().map(|node| node.group.mask());
        let masks = masks.chain(state.generated.iter().cloned()).collect();
        for at in 0..self.nodes.len() {
            let id = &self.nodes[at].id;
            let Some(mut object) = state.objects.get(id).cloned() else {
                continue;
            };
            edit_texts(&mut object, &mut |place, text| {
                let mask = |id: &ObjectId| self.masked(id);
                let replaced = state.holders.replacement(place, &id.namespace, text, mask);
                replaced.or_else(|| {
                    let named = self.node_named(&id.namespace, text)?;
                    Some(self.nodes[named].group.mask())
                })
            });
            sort_lists(&mut object, &masks);
            self.nodes[at].content = content(&object);
        }
    }

    fn link(&mut self, state: &PlainState) {
        let mut found = Vec::new();
        for (id, object) in &state.objects {
            let own = self.by_id.get(id).copied();
            let source = own.map_or_else(
                || {
                    let mut masked = self.masked(id);
                    let generate = object["metadata"]["generateName"].as_str();
                    if let Some(generate) = generate.filter(|generate| !generate.is_empty()) {
                        generate.clone_into(&mut masked.name);
                    }
                    LinkEnd::Chosen(hash(&masked))
                },
                LinkEnd::Node,
            );
            visit_texts(object, &mut |place, text| {
                let held = state.holders.find(place, &id.namespace, text);
                let target = match held {
                    Some((_, holder)) => self.by_id.get(holder).copied(),
                    None => self.node_named(&id.namespace, text),
                };
                if let Some(target) = target {
                    let what = held.map_or("name", |(what, _)| what);
                    found.push((source, target, hash(&(what, place.steps()))));
                }
            });
        }
        for (source, target, place) in found {
            let label = hash(&("from", place));
            self.nodes[target]
                .links
                .push(NameLink { label, end: source });
            if let LinkEnd::Node(source) = source {
                let label = hash(&("to", place));
                let end = LinkEnd::Node(target);
                self.nodes[source].links.push(NameLink { label, end });
            }
        }
    }

    /// Returns the objects of each group in their order. `varying` has the paths that do not count.
    pub(super) fn sorted(&self, varying: &VaryingPaths) -> BTreeMap<NameGroup, Vec<SortedName>> {
        let counted = |node: &NameNode| -> Vec<(String, String)> {
            let leaves = node.content.iter();
            let leaves = leaves.filter(|(path, _)| !varying.contains(&node.group, path));
            leaves
                .map(|(path, leaf)| (path.clone(), leaf.clone()))
                .collect()
        };
        let leaves: Vec<Vec<(String, String)>> = self.nodes.iter().map(counted).collect();
        let contents: Vec<u64> = self
            .nodes
            .iter()
            .zip(&leaves)
            .map(|(node, leaves)| hash(&(&node.group, leaves)))
            .collect();
        let surroundings = self.refine(contents.clone());
        let colours = self.break_ties(surroundings.clone());
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|one, other| {
            let key = |at: usize| {
                (
                    &leaves[at], surroundings[at], colours[at], &self.nodes[at].id,
                )
            };
            key(*one).cmp(&key(*other))
        });
        let mut groups: BTreeMap<NameGroup, Vec<SortedName>> = BTreeMap::new();
        for at in order {
            let node = &self.nodes[at];
            groups
                .entry(node.group.clone())
                .or_default()
                .push(SortedName {
                    id: node.id.clone(),
                    content: contents[at],
                    surroundings: surroundings[at],
                });
        }
        groups
    }

    /// Returns a colour for each object that depends on its own colour, and on the colours around it.
    fn refine(&self, mut colours: Vec<u64>) -> Vec<u64> {
        for _ in 0..ROUNDS {
            let next = self.nodes.iter().enumerate().map(|(at, node)| {
                let links = node.links.iter().map(|link| match link.end {
                    LinkEnd::Node(end) => (link.label, colours[end]),
                    LinkEnd::Chosen(object) => (link.label, object),
                });
                let mut links: Vec<(u64, u64)> = links.collect();
                links.sort_unstable();
                hash(&(colours[at], links))
            });
            colours = next.collect();
        }
        colours
    }

    /// Gives objects with the same colour different colours, one after another, if references connect them with other
    /// objects with generated names: what they are connected with is then told apart in the same order.
    fn break_ties(&self, mut colours: Vec<u64>) -> Vec<u64> {
        let is_linked = |at: usize| {
            let mut links = self.nodes[at].links.iter();
            links.any(|link| matches!(link.end, LinkEnd::Node(end) if end != at))
        };
        for _ in 0..MOST_TIES {
            let mut classes: BTreeMap<(&NameGroup, u64), Vec<usize>> = BTreeMap::new();
            for at in (0..self.nodes.len()).filter(|at| is_linked(*at)) {
                classes
                    .entry((&self.nodes[at].group, colours[at]))
                    .or_default()
                    .push(at);
            }
            let Some(tied) = classes.values().find(|class| class.len() > 1) else {
                break;
            };
            colours[tied[0]] = hash(&(colours[tied[0]], "first"));
            colours = self.refine(colours);
        }
        colours
    }

    /// Returns the contents of the objects of each group.
    pub(super) fn contents(&self) -> BTreeMap<&NameGroup, Vec<&Content>> {
        let mut groups: BTreeMap<&NameGroup, Vec<&Content>> = BTreeMap::new();
        for node in &self.nodes {
            groups.entry(&node.group).or_default().push(&node.content);
        }
        groups
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
