//! Machine: sets of field paths, with union and difference.

use std::collections::BTreeMap;

use super::path_element::PathElement;

/// A set of field paths. A path may be in the set without the paths below it, and a path below it without the path
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, FieldNode>,
}

/// The part of a set that is at or below one path element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldNode {
    /// Whether the path up to this node is in the set.
    pub member: bool,
    /// The paths of the set that continue below this node.
    pub below: FieldSet,
}

impl FieldNode {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Returns the set of one path. The empty path gives the empty set.
    pub fn of_path(path: &[PathElement]) -> Self {
        let mut set = Self::default();
        let Some((first, rest)) = path.split_first() else {
            return set;
        };
        let node = FieldNode {
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

    /// Iterates over the first elements of the paths, with their nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&PathElement, &FieldNode)> {
        self.nodes.iter()
    }

    /// Returns the node of a first element of the paths.
    pub fn node(&self, element: &PathElement) -> Option<&FieldNode> {
        self.nodes.get(element)
    }

    /// Sets the node of a first element of the paths; an empty node removes the element.
    pub fn put(&mut self, element: PathElement, node: FieldNode) {
        if node.is_empty() {
            self.nodes.remove(&element);
        } else {
            self.nodes.insert(element, node);
        }
    }

    /// Adds the path that consists of this element.
    pub fn insert(&mut self, element: PathElement) {
        self.nodes.entry(element).or_default().member = true;
    }

    /// Returns the union of this set and another set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other.clone());
        all
    }

    /// Adds all paths of another set.
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

    /// Removes all paths of another set, which leaves the [`difference`](Self::difference).
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

    /// Returns the node of a first element of the paths, mutable. The caller must not leave the node empty.
    pub fn node_mut(&mut self, element: &PathElement) -> Option<&mut FieldNode> {
        self.nodes.get_mut(element)
    }

    /// Returns the intersection of this set and another set.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs)
    }

    /// Returns the paths of this set that are not in the other set. Paths below a member of the other set stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs)
    }

    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool) -> Self {
        let empty = FieldNode::default();
        let mut kept = Self::default();
        for (element, mine) in &self.nodes {
            let theirs = other.nodes.get(element).unwrap_or(&empty);
            let node = FieldNode {
                member: keep(mine.member, theirs.member),
                below: mine.below.combine(&theirs.below, keep),
            };
            kept.put(element.clone(), node);
        }
        kept
    }

    /// Returns the paths as texts in the order of a 409 status: the members of each level before the paths below them.
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
