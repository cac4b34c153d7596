//! Tests of the validation of HorizontalPodAutoscalers.

use serde_json::json;

use super::refused;

#[test]
fn an_autoscaler_of_either_version_is_validated_as_v2() {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let older = json!({"metadata": {}, "spec": {"maxReplicas": 2, "scaleTargetRef": target,
        "targetCPUUtilizationPercentage": 0}});
    assert_eq!(
        refused("autoscaling/v1", "HorizontalPodAutoscaler", older, None),
        [
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"
        ]
    );
    let newer = json!({"spec": {"maxReplicas": 2, "scaleTargetRef": target, "metrics": [
        {"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Value", "averageValue": "1"}}}],
        "behavior": {"scaleUp": {"policies": [{"type": "Odd", "value": 1, "periodSeconds": 2000}]}}}});
    assert_eq!(
        refused("autoscaling/v2", "HorizontalPodAutoscaler", newer, None),
        [
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"Odd\": supported values: \"Percent\", \"Pods\"",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
        ]
    );
}

#[test]
fn the_resource_of_a_container_metric_is_one_of_containers() {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let scaled = |name: &str| {
        let source = json!({"name": name, "container": "main",
            "target": {"type": "Utilization", "averageUtilization": 50}});
        let metric = json!({"type": "ContainerResource", "containerResource": source});
        let spec = json!({"maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]});
        let object = json!({"spec": spec});
        refused("autoscaling/v2", "HorizontalPodAutoscaler", object, None)
    };
    let at = "spec.metrics[0].containerResource.name: Invalid value";
    assert!(scaled("cpu").is_empty());
    assert!(scaled("example.com/gpu").is_empty());
    assert_eq!(
        scaled("pods"),
        [format!(
            "{at}: \"pods\": must be a standard resource for containers"
        )]
    );
    assert_eq!(
        scaled("gpu"),
        [
            format!("{at}: \"gpu\": must be a standard resource type or fully qualified"),
            format!("{at}: \"gpu\": must be a standard resource for containers"),
        ]
    );
}
