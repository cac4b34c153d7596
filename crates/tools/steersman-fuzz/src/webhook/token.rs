//! Driver: makes a token review of an input, and checks the response.

use serde_json::{Value, json};

use super::webhooks::{AUTHENTICATE, SiteChange, Webhooks, check_kind};

/// Takes a byte that selects the form of the input, and the body of a token review or a token.
pub(crate) fn token_reviews(input: &[u8]) {
    let [form, rest @ ..] = input else {
        return;
    };
    let webhooks = Webhooks::new(SiteChange::SetFields);
    let is_v1 = (form / 2).is_multiple_of(2);
    let version = if is_v1 { "v1" } else { "v1beta1" };
    if form.is_multiple_of(2) {
        review(&webhooks, rest);
        return;
    }
    let text = String::from_utf8_lossy(rest);
    let mut lines = text.split('\n');
    let token = lines.next().unwrap_or_default();
    let audiences: Vec<&str> = lines.collect();
    let body = json!({
        "apiVersion": format!("authentication.k8s.io/{version}"),
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    review(&webhooks, body.to_string().as_bytes());
}

fn review(webhooks: &Webhooks, body: &[u8]) {
    let Some(answer) = webhooks.post(AUTHENTICATE, "", body) else {
        return;
    };
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    check_kind(&sent, &answer, "authentication.k8s.io", "TokenReview");
    let status = &answer["status"];
    let error = status["error"].as_str();
    assert!(
        !error.is_some_and(|error| error.starts_with("the reviewer panicked")),
        "{answer}"
    );
    let token = sent["spec"]["token"].as_str().unwrap_or_default();
    if status["authenticated"] == true {
        // Only a review with the token of a user authenticates that user.
        assert_eq!(sent["kind"], "TokenReview", "{sent}");
        let name = token.strip_prefix("user:");
        assert_eq!(status["user"]["username"].as_str(), name, "{answer}");
        assert_eq!(error, None, "{answer}");
        let (found, asked) = (&status["audiences"], &sent["spec"]["audiences"]);
        let both_empty = found.is_null() && asked.as_array().is_none_or(|asked| asked.is_empty());
        assert!(both_empty || found == asked, "{answer}");
    } else {
        assert_eq!(status["authenticated"], false, "{answer}");
        assert!(status["user"].is_null(), "{answer}");
        // Without an error the reviewer has decided about a token.
        assert!(error.is_some() || !token.is_empty(), "{answer}");
    }
}
