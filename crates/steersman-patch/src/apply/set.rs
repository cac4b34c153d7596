//! Machine: sets of fields and what one does with sets.

use std::collections::BTreeMap;

use super::path::PathElement;

/// A set of paths. A place may be in it without what is below, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// A place of which something is in the set: itself, or something below, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Whether the place itself is in the set.
    pub member: bool,
    /// What of the set is below.
    pub below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of one path; the path of no step is in no set.
    pub fn of_path(path: &[PathElement]) -> Self {
        let mut set = Self::default();
        let Some((first, rest)) = path.split_first() else {
            return set;
        };
        let node = Node {
            member: rest.is_empty(),
            below: Self::of_path(rest),
        };
        set.put(first.clone(), node);
        set
    }

    /// Returns whether the set holds no field.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What is known of each first step, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter()
    }

    /// What is known of a first step.
    pub fn node(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(element)
    }

    /// Sets what is known of a first step; a node without content leaves no trace.
    pub fn put(&mut self, element: PathElement, node: Node) {
        if node.is_empty() {
            self.nodes.remove(&element);
        } else {
            self.nodes.insert(element, node);
        }
    }

    /// Adds a first step.
    pub fn insert(&mut self, element: PathElement) {
        self.nodes.entry(element).or_default().member = true;
    }

    /// Everything that is in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other.clone());
        all
    }

    /// Takes in everything that is in the other set.
    pub fn extend(&mut self, other: Self) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        for (element, theirs) in other.nodes {
            let own = self.nodes.entry(element).or_default();
            own.member |= theirs.member;
            own.below.extend(theirs.below);
        }
    }

    /// Takes out everything that is in the other set: leaves the [`difference`](Self::difference).
    pub fn subtract(&mut self, other: &Self) {
        for (element, theirs) in &other.nodes {
            let Some(own) = self.nodes.get_mut(element) else {
                continue;
            };
            own.member &= !theirs.member;
            own.below.subtract(&theirs.below);
            if own.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// What is known of a first step, to change it; nothing may be left without content.
    pub fn node_mut(&mut self, element: &PathElement) -> Option<&mut Node> {
        self.nodes.get_mut(element)
    }

    /// Everything that is in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs)
    }

    /// Everything of this set that is not in the other one. What is below a member of the other
    /// set stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs)
    }

    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool) -> Self {
        let empty = Node::default();
        let mut kept = Self::default();
        for (element, mine) in &self.nodes {
            let theirs = other.nodes.get(element).unwrap_or(&empty);
            let node = Node {
                member: keep(mine.member, theirs.member),
                below: mine.below.combine(&theirs.below, keep),
            };
            kept.put(element.clone(), node);
        }
        kept
    }

    /// The paths, members of each level before what is below: the order in which conflicts are
    /// told.
    pub fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, prefix: &str, found: &mut Vec<String>) {
        let members = self.nodes.iter().filter(|(_, node)| node.member);
        found.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, node) in &self.nodes {
            if !node.below.is_empty() {
                node.below.collect(&format!("{prefix}{element}"), found);
            }
        }
    }
}
