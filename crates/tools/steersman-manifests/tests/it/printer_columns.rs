//! Tests the order of printer columns, from the declaration of a kind to the server's Tables.

use std::time::Duration;

use serde_json::Value;
use steersman::ClientConfig;
use steersman_cli::Program;
use steersman_crds::{Crd, Crds};
use steersman_manifests::{Manifests, Options, RuleList};
use steersman_testenv::apiserver::ApiServer;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const BERTHS: &str = "berths.harbor.example.com";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Column names with priorities: `kubectl get` prints columns with priority 0, and `-o wide` all of them.
type Columns<'a> = Vec<(&'a str, i64)>;

/// A kind with two versions. The columns are not in alphabetical order, and one version has a column in their middle.
#[steersman::versioned(v1alpha1, v1)]
mod berth {
    use serde::{Deserialize, Serialize};
    use steersman::CustomResource;
    use steersman::schemars::JsonSchema;

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[expect(clippy::duplicated_attributes, reason = "columns may share a type")]
    #[kube(
        group = "harbor.example.com",
        kind = "Berth",
        namespaced,
        printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zone"),
        printcolumn(
            name = "Mass",
            type_ = "integer",
            json_path = ".spec.mass",
            priority = 1
        )
    )]
    #[versioned(only(
        v1,
        kube(printcolumn(name = "Length", type_ = "integer", json_path = ".spec.length"))
    ))]
    #[kube(
        printcolumn(name = "Dock", type_ = "string", json_path = ".spec.dock"),
        printcolumn(
            name = "Captain",
            type_ = "string",
            json_path = ".spec.captain",
            priority = 1
        ),
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    pub(crate) struct BerthSpec {
        pub(crate) captain: String,
        pub(crate) dock: String,
        pub(crate) length: i32,
        pub(crate) mass: i32,
        pub(crate) zone: String,
    }
}

/// Returns the names and priorities of columns.
fn named(columns: &Value) -> Columns<'_> {
    let columns = columns.as_array().unwrap().iter();
    let priority = |column: &Value| column["priority"].as_i64().unwrap_or_default();
    columns
        .map(|column| (column["name"].as_str().unwrap(), priority(column)))
        .collect()
}

/// Returns the columns of each version in the declared order, or reversed.
fn expected(is_reversed: bool) -> [(&'static str, Columns<'static>); 2] {
    let (zone, mass, length) = (("Zone", 0), ("Mass", 1), ("Length", 0));
    let (dock, captain, age) = (("Dock", 0), ("Captain", 1), ("Age", 0));
    let mut versions = [
        ("v1", vec![zone, mass, length, dock, captain, age]),
        ("v1alpha1", vec![zone, mass, dock, captain, age]),
    ];
    if is_reversed {
        versions
            .iter_mut()
            .for_each(|(_, columns)| columns.reverse());
    }
    versions
}

/// Checks that a definition has exactly the expected columns in their order.
fn check(place: &str, definition: &Value, is_reversed: bool) {
    for (version, expected) in expected(is_reversed) {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let found = versions.iter().find(|found| found["name"] == version);
        let found = named(&found.unwrap()["additionalPrinterColumns"]);
        assert_eq!(found, expected, "{place}, {version}");
    }
}

#[tokio::test]
async fn the_order_of_printer_columns_is_the_declared_one() {
    let mut declared = berth::crd();
    let definitions = Crds::new().with(Crd::new(&declared));
    let program = Program::new("harbor", "0.1.0").crds(definitions);
    let rules = RuleList::parse("rbac.observed.yaml", "rules: []").unwrap();
    let description = program.describe().unwrap();
    let manifests = Manifests::new(&description, &rules, &Options::default()).unwrap();
    let files = manifests.crds();
    let generated = files.values().find(|text| text.contains("kind: Berth\n"));
    let generated: Value = serde_saphyr::from_str(generated.unwrap()).unwrap();
    check("generated", &generated, false);

    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    for is_reversed in [false, true] {
        if is_reversed {
            // A later release differs only in the order of columns.
            for version in &mut declared.spec.versions {
                version
                    .additional_printer_columns
                    .as_mut()
                    .unwrap()
                    .reverse();
            }
        }
        let definitions = Crds::new().with(Crd::new(&declared));
        let patience = Duration::from_secs(30);
        definitions.install(&client_config, patience).await.unwrap();
        let installed = server.get(DEFINITIONS, "", BERTHS).unwrap();
        check("installed", &installed, is_reversed);

        for (version, mut columns) in expected(is_reversed) {
            let path = format!("/apis/harbor.example.com/{version}/berths");
            let request = http::Request::get(path).header("accept", TABLE);
            let client = client_config.client().unwrap();
            let request = request.body(Vec::new()).unwrap();
            let table: Value = client.request(request).await.unwrap();
            columns.insert(0, ("Name", 0));
            let found = named(&table["columnDefinitions"]);
            assert_eq!(found, columns, "Table, {version}");
        }
    }
}
