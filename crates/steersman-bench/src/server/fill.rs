//! Driver: a server full of Pods of full size, written as their authors would write them.

use steersman_apiserver::ApiServer;

use crate::pods::pod;
use crate::process::Outcome;

/// Creates Pods and reports their status, so that the server notes who owns which field. Answers
/// how many writes that were.
pub(crate) fn fill(server: &ApiServer, objects: u64) -> Outcome<u64> {
    for number in 0..objects {
        let (pod, status) = pod(number);
        let mut made = server.create(pod).map_err(|refusal| refusal.message)?;
        made["status"] = status;
        server
            .update("pods/status", made)
            .map_err(|refusal| refusal.message)?;
    }
    Ok(2 * objects)
}
