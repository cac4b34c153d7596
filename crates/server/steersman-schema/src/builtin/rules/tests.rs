//! Whether the table of rules has each kind, and a word in each cell.

use super::*;
use crate::builtin::rows;

/// The values of cells that state whether this server implements a rule.
const KEPT: &[&str] = &["own", "-", "gap"];

#[test]
fn every_kind_has_a_row_without_an_empty_cell() {
    // SRV-KIND-1.
    let (rows, rules): (Vec<_>, Vec<_>) = (rows().collect(), rules());
    assert_eq!(rows.len(), rules.len());
    for (row, rule) in rows.iter().zip(&rules) {
        let name = format!("{}/{} {}", row.group, row.version, row.kind);
        assert!(rule.is_of(row), "{name} and {} stand elsewhere", rule.kind);
        assert!(!rule.cells.contains(&""), "{name} has an empty cell");
        let status = [
            "takes", "keeps", "keeps-but-owns", "keeps-labels", "keeps-owners",
        ];
        assert!(["generic", "plain", "kind", "version"].contains(&rule.cells[2]));
        assert!(
            rule.cells[3] == "-" || status.contains(&rule.cells[3]),
            "{name}"
        );
        assert!(["own", "age"].contains(&rule.cells[5]), "{name}");
        for cell in &rule.cells[6..11] {
            assert!(KEPT.contains(cell), "{name}: {cell}");
        }
        let has_status = row.flags.contains('s');
        assert_eq!(rule.cells[3] != "-", has_status, "{name}: the status cell");
        assert!(
            has_status || rule.cells[9] == "-",
            "{name}: the statusck cell"
        );
        let selects = rule.cells[1] != "-";
        assert_eq!(
            selects,
            rule.cells[2] != "generic",
            "{name}: the unknown cell"
        );
    }
    let lines = TABLE.lines().filter(|line| !line.starts_with(['#', '[']));
    assert_eq!(rules.len(), lines.filter(|line| !line.is_empty()).count());
}
