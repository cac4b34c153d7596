//! Tests parts of the chart's templates.

use super::{condition, of_config, parts};

#[test]
fn an_image_has_a_repository_and_a_tag() {
    let cases = [
        ("a:1", ("a", "1")),
        ("a", ("a", "")),
        ("localhost:5000/a", ("localhost:5000/a", "")),
        ("localhost:5000/a:1", ("localhost:5000/a", "1")),
        ("a@sha256:00", ("a", "sha256:00")),
        ("a:1@sha256:00", ("a", "sha256:00")),
    ];
    for (image, expected) in cases {
        assert_eq!(parts(image), expected, "{image}");
    }
}

#[test]
fn braces_of_the_program_are_texts_and_the_namespace_is_that_of_the_release() {
    let text = "# Generated\ndescription: a {{ b }}\nnamespace: namespace-of-the-helm-release\n";
    let template = of_config("rbac/role.yaml", text);
    let body = template.split_once('\n').unwrap().1;
    let expected =
        "description: a {{ \"{{\" }} b }}\nnamespace: {{ .Release.Namespace | quote }}\n";
    assert_eq!(body, expected);
}

#[test]
fn roles_for_users_have_a_condition_and_the_own_role_has_none() {
    let helpers = Some(".Values.rbac.helpers");
    assert_eq!(condition("rbac/website_admin_role.yaml"), helpers);
    assert_eq!(condition("rbac/role.yaml"), None);
    assert_eq!(condition("crd/a_b.yaml"), Some(".Values.crd.enable"));
}
