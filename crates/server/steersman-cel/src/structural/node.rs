//! Words: `SchemaNode`, a node of a compiled schema. Schemas with equal parts share the nodes of these parts.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use serde_json::Value;

use super::Structural;

/// A compiled schema, or a part of one. A clone refers to the same node in memory.
///
/// Two nodes are equal only if they are the same in memory, because a `NodePool` shares nodes of equal content.
#[derive(Debug, Clone)]
pub struct SchemaNode(Arc<Structural>);

/// The nodes in use, by the hash of their content, so that equal schemas share one node.
///
/// CRDs repeat content: versions differ in few fields, and the schema of a Pod's spec is a part of many kinds. The
/// schemas of 430 CRDs have 183,000 nodes, but only 7,500 different ones.
#[derive(Debug, Default)]
struct NodePool {
    nodes: HashMap<u64, Weak<Structural>>,
    /// The number of entries in the pool at which the entries of dropped nodes are removed next.
    sweep_at: usize,
}

/// The pool of all schemas that this process keeps in memory: equal parts are stored once (SRV-CRD-1).
static KEPT: LazyLock<Mutex<NodePool>> = LazyLock::new(Mutex::default);

/// A pool with fewer entries than this keeps the entries of dropped nodes, because they take little memory.
const FEW: usize = 1024;

impl SchemaNode {
    pub(super) fn alone(content: Structural) -> Self {
        Self(Arc::new(content))
    }

    /// Compiles a schema that stays in memory. All schemas compiled here share the nodes with equal content.
    pub fn kept(schema: &Value) -> Self {
        let mut pool = KEPT.lock();
        let content = Structural::build(schema, &mut |content| pool.share(content));
        pool.share(content)
    }

    /// Returns whether `self` and `other` are the same node in memory.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl NodePool {
    /// Returns the pool's node with this content, or adds a new node.
    fn share(&mut self, content: Structural) -> SchemaNode {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let hash = hasher.finish();
        let known = self.nodes.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == content) {
            return SchemaNode(known);
        }
        if self.nodes.len() >= self.sweep_at.max(FEW) {
            self.nodes.retain(|_, node| node.strong_count() > 0);
            self.sweep_at = 2 * self.nodes.len();
        }
        let node = Arc::new(content);
        // If another content has the same hash, the new node replaces that node in the pool and ends its sharing.
        self.nodes.insert(hash, Arc::downgrade(&node));
        SchemaNode(node)
    }
}

impl Deref for SchemaNode {
    type Target = Structural;

    fn deref(&self) -> &Structural {
        &self.0
    }
}

impl PartialEq for SchemaNode {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for SchemaNode {}

impl Hash for SchemaNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// SRV-CRD-1: equal parts of kept schemas are one value, whatever their descriptions say.
    #[test]
    fn kept_schemas_share_their_equal_parts() {
        let part = |text: &str| {
            json!({"type": "object", "description": text, "required": ["a"], "properties": {
                "a": {"type": "string", "pattern": "^x+$", "description": text},
                "n": {"type": "number", "minimum": 0.5, "default": 1},
            }})
        };
        let kept = |spec: Value| {
            SchemaNode::kept(&json!({"type": "object", "properties": {"spec": spec, "x": {}}}))
        };
        let old = kept(part("old"));
        assert!(old.is(&kept(part("new"))));
        let mut other = part("new");
        other["properties"]["n"]["minimum"] = json!(0.25);
        let other = kept(other);
        assert!(!old.is(&other));
        let member = |root: &SchemaNode, name: &str| -> *const Structural {
            let spec = root.properties.get("spec").unwrap();
            spec.properties.get(name).unwrap()
        };
        assert_eq!(member(&old, "a"), member(&other, "a"));
        assert_ne!(member(&old, "n"), member(&other, "n"));
    }

    /// SRV-CRD-1: a schema that is not used any more is freed.
    #[test]
    fn a_pool_keeps_no_node_that_is_not_used() {
        let mut pool = NodePool::default();
        let content = |number: usize| Structural {
            kind: number.to_string().into(),
            ..Structural::default()
        };
        let used = pool.share(content(0));
        for number in 1..=4 * FEW {
            let node = Arc::downgrade(&pool.share(content(number)).0);
            assert_eq!(node.strong_count(), 0);
        }
        assert!(pool.nodes.len() <= FEW, "{} nodes", pool.nodes.len());
        assert!(pool.share(content(0)).is(&used));
    }
}
