//! Words: calls kube's derives with the crate paths of the facade.
//!
//! A derive can neither call another derive nor add an attribute to its type. So each derive here repeats the type with
//! kube's derive, an attribute that names the crates, and the attribute `discard`, which removes the repeated type:
//! only the output of kube's derive stays. All tokens keep their source positions for error messages.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::history::metas;

/// Returns the output of kube's derive for the spec of a kind.
pub(crate) fn custom_resource(input: &TokenStream) -> TokenStream {
    let crates = quote! {
        #[kube(crates(
            kube = "::steersman",
            kube_core = "::steersman::kube_core",
            k8s_openapi = "::steersman::k8s_openapi",
            schemars = "::steersman::schemars",
            serde = "::steersman::serde",
            serde_json = "::steersman::serde_json"
        ))]
    };
    forward(&quote!(CustomResource), "kube", &crates, input)
}

/// Returns the output of kube's derive for a type with CEL rules.
pub(crate) fn schema(input: &TokenStream) -> TokenStream {
    let crates = quote! {
        #[x_kube(crates(
            kube_core = "::steersman::kube_core",
            schemars = "::steersman::schemars",
            serde = "::steersman::serde",
            serde_json = "::steersman::serde_json"
        ))]
    };
    forward(&quote!(KubeSchema), "x_kube", &crates, input)
}

fn forward(
    derive: &TokenStream,
    attribute: &str,
    crates: &TokenStream,
    input: &TokenStream,
) -> TokenStream {
    let crates = (!names_crates(attribute, input)).then_some(crates);
    quote! {
        #[derive(::steersman::__private::#derive)]
        #[::steersman::__private::discard]
        #crates
        #input
    }
}

/// Returns whether the type names the crates itself; `false` for invalid input, which kube's derive reports.
fn names_crates(attribute: &str, input: &TokenStream) -> bool {
    let Ok(input) = syn::parse2::<DeriveInput>(input.clone()) else {
        return false;
    };
    let own = input
        .attrs
        .iter()
        .filter(|one| one.path().is_ident(attribute));
    let mut metas = own.filter_map(|one| metas(one).ok()).flatten();
    metas.any(|meta| meta.path().is_ident("crates"))
}
