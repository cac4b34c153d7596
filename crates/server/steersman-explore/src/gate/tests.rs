use super::*;

fn request(sequence: u64, process: usize, verb: RequestVerb, resource: &str) -> OperatorRequest {
    OperatorRequest {
        sequence,
        process,
        verb,
        resource: resource.to_owned(),
        subresource: None,
        namespace: Some("shop".to_owned()),
        name: None,
        is_dry_run: false,
        may_be_stale: verb == RequestVerb::List,
    }
}
