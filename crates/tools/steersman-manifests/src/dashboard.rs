//! Machine: makes the Grafana dashboard of an operator, and the folder of its ConfigMap.

mod panel;
mod control;
mod surroundings;
mod json;

use serde_json::{Map, Value, json};

use self::control::{OVERVIEW, QUEUES, RECONCILES};
use self::panel::{DashboardPanel, DashboardRow, Drawing};
use self::surroundings::{API_SERVER, CACHE, PROCESS, REPLICAS, WEBHOOKS};
use crate::files::{FROM_PROGRAM, Files, header, source};
use crate::operator::Operator;
use crate::template::fill;

const KUSTOMIZATION: &str = include_str!("../templates/grafana_kustomization.yaml");

const ROWS: &[DashboardRow] = &[
    OVERVIEW, RECONCILES, QUEUES, CACHE, API_SERVER, REPLICAS, WEBHOOKS, PROCESS,
];

/// The matchers for series of the chosen replicas.
const PODS: &str = "job=\"$job\",namespace=\"$namespace\",pod=~\"$pod\"";

/// The number of columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// Grafana's limit of the characters of an identifier of a dashboard.
const IDENTIFIER: usize = 40;

/// Returns the files of `config/grafana`.
pub(crate) fn files(operator: &Operator) -> Files {
    let kustomization = header(FROM_PROGRAM) + &fill(KUSTOMIZATION, operator);
    Files::from([
        ("config/grafana/dashboard.json".to_owned(), text(operator)),
        (
            "config/grafana/kustomization.yaml".to_owned(),
            kustomization,
        ),
    ])
}

/// Returns the dashboard as JSON.
pub(crate) fn text(operator: &Operator) -> String {
    let name = &operator.name;
    let mut members = Map::new();
    for (key, value) in [
        ("annotations", json!({"list": [restarts()]})),
        ("editable", json!(true)),
        ("graphTooltip", json!(1)),
        ("links", json!([guide(&operator.description.framework)])),
        ("panels", Value::Array(panels(operator))),
        ("refresh", json!("1m")),
        ("schemaVersion", json!(41)),
        ("tags", json!(["operator", "steersman"])),
        ("templating", json!({"list": variables(name)})),
        ("time", json!({"from": "now-6h", "to": "now"})),
        ("timezone", json!("browser")),
        ("title", json!(name)),
        (
            "uid",
            json!(name.chars().take(IDENTIFIER).collect::<String>()),
        ),
    ] {
        members.insert(key.to_owned(), value);
    }
    json::document(&source(FROM_PROGRAM), &members)
}

/// Returns the annotation that marks the starts of replicas in all panels.
fn restarts() -> Value {
    json!({
        "name": "Starts", "enable": true, "iconColor": "orange", "datasource": data_source(),
        "expr": format!("changes(process_start_time_seconds{{{PODS}}}[2m]) > 0"),
    })
}

fn guide(framework: &str) -> Value {
    json!({
        "title": "Alerts and their remedies", "type": "link", "icon": "doc", "tooltip": "", "tags": [],
        "url": format!("https://docs.rs/steersman/{framework}/steersman/guide/alerts/index.html"),
        "asDropdown": false, "includeVars": false, "keepTime": false, "targetBlank": true,
    })
}

fn data_source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// Returns the variables. The job is chosen before the namespace, because its name has that of the operator: the
/// dashboard opens with this operator, wherever it is installed.
fn variables(name: &str) -> Vec<Value> {
    let job = format!("{name}-metrics");
    let values = |name: &str, label: &str, matchers: &str, has_all: bool| {
        let query =
            format!("label_values(controller_runtime_reconcile_total{{{matchers}}}, {name})");
        let mut variable = json!({
            "name": name, "label": label, "type": "query", "datasource": data_source(), "refresh": 2, "sort": 1,
            "query": {"query": query, "refId": "StandardVariableQuery"},
            "includeAll": has_all, "multi": has_all,
        });
        if has_all {
            variable["allValue"] = json!(".*");
            variable["current"] = json!({"selected": true, "text": ["All"], "value": ["$__all"]});
        }
        variable
    };
    let mut jobs = values("job", "Job", "", false);
    jobs["current"] = json!({"selected": true, "text": job, "value": job});
    vec![
        json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}),
        jobs,
        values("namespace", "Namespace", "job=\"$job\"", false),
        values("pod", "Pod", "job=\"$job\",namespace=\"$namespace\"", true),
        values("controller", "Controller", PODS, true),
    ]
}

/// Returns all rows and panels with their numbers and places. Panels fill a row from left to right, line by line.
fn panels(operator: &Operator) -> Vec<Value> {
    let mut placed = Vec::new();
    let mut top = 0;
    let rows = ROWS
        .iter()
        .filter(|row| !row.needs_webhooks || operator.has_webhook_server());
    for row in rows {
        let id = placed.len() + 1;
        placed.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
        }));
        top += 1;
        let (mut left, mut height) = (0, 0);
        for panel in row.panels {
            if left + panel.width > COLUMNS {
                top += height;
                (left, height) = (0, 0);
            }
            let mut value = drawn(panel);
            let tall = panel.drawing.height();
            value["id"] = json!(placed.len() + 1);
            value["gridPos"] = json!({"x": left, "y": top, "w": panel.width, "h": tall});
            placed.push(value);
            left += panel.width;
            height = height.max(tall);
        }
        top += height;
    }
    placed
}

/// Returns a panel without its number and place.
fn drawn(panel: &DashboardPanel) -> Value {
    let targets = panel.queries.iter().zip('A'..).map(|(query, letter)| {
        let controllers = format!("{PODS},controller=~\"$controller\"");
        let expression = query.expression.replace("%controllers", &controllers);
        let mut target = json!({
            "refId": letter.to_string(), "expr": expression.replace("%pods", PODS), "legendFormat": query.legend,
        });
        if panel.drawing.plugin() == "stat" {
            target["instant"] = json!(true);
        }
        target
    });
    json!({
        "type": panel.drawing.plugin(),
        "title": panel.title,
        "description": panel.description,
        "datasource": data_source(),
        "fieldConfig": {"defaults": field(panel), "overrides": []},
        "options": options(panel.drawing),
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn field(panel: &DashboardPanel) -> Value {
    let drawing = panel.drawing;
    let mut steps = vec![json!({"color": drawing.base_color(), "value": null})];
    for (value, color) in panel.steps {
        steps.push(json!({"color": color, "value": value}));
    }
    let mut field = json!({"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}});
    match drawing {
        Drawing::Number | Drawing::Presence => field["noValue"] = json!("none"),
        Drawing::Lines | Drawing::Stack => {
            let is_stack = drawing == Drawing::Stack;
            // Dashed lines mark the values at which something is wrong.
            let marks = if panel.steps.is_empty() {
                "off"
            } else {
                "dashed"
            };
            field["min"] = json!(0);
            field["color"] = json!({"mode": "palette-classic"});
            field["custom"] = json!({
                "drawStyle": "line", "lineWidth": 1, "showPoints": "never", "spanNulls": false,
                "fillOpacity": if is_stack { 30 } else { 0 },
                "stacking": {"group": "A", "mode": if is_stack { "normal" } else { "none" }},
                "thresholdsStyle": {"mode": marks},
            });
        }
        Drawing::Timeline => {
            let states = json!({"0": {"text": "standby", "color": "blue"}, "1": {"text": "leader", "color": "green"}});
            field["mappings"] = json!([{"type": "value", "options": states}]);
            field["custom"] = json!({"fillOpacity": 70, "lineWidth": 0});
        }
    }
    field
}

fn options(drawing: Drawing) -> Value {
    match drawing {
        Drawing::Number | Drawing::Presence => json!({
            "colorMode": "background", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
            "textMode": "value", "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
        }),
        Drawing::Lines | Drawing::Stack => json!({
            "legend": {
                "displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
        Drawing::Timeline => json!({
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []},
            "mergeValues": true, "rowHeight": 0.8, "showValue": "auto", "tooltip": {"mode": "single", "sort": "none"},
        }),
    }
}
