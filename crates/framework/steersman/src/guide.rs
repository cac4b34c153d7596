//! Words: the users' guide, one module per page, so that its examples are tests.
//!
//! In this order for a first reading:
//!
//! 1. [`first_operator`]: from nothing to a running operator.
//! 2. [`concepts`]: the way of a change from the API server to the reconciler and back.
//! 3. [`reconcilers`]: the context and the result of a reconcile.
//! 4. [`retries`]: what each result of a reconcile causes.
//! 5. [`desired_sets`]: the children of an object, in order, pruned and judged.
//! 6. [`watches`]: which events cause which requests.
//! 7. [`cache`]: reads from memory, scope, and indexes.
//! 8. [`memory`]: what the cache holds, and how to hold less.
//! 9. [`client`]: writes, and errors to branch on.
//! 10. [`manager`]: start, stop, health and metrics.
//! 11. [`leader_election`]: one replica works at a time.
//! 12. [`sharing_the_work`]: all replicas work, each on a part of the objects.
//! 13. `program`: the whole `main` of an operator (feature `cli`).
//! 14. `configuration`: flags, variables, a file and logging (feature `cli`).
//! 15. [`events`]: what the operator tells people about its objects.
//! 16. [`clusters`]: controllers of several clusters.
//! 17. [`webhooks`]: defaults and refusals before objects are stored.
//! 18. [`certificates`]: certificates of webhooks, from files or from the operator itself.
//! 19. [`versions`]: conversions between the versions of a kind.
//! 20. [`probes_and_metrics`]: probes of the kubelet, and what Prometheus reads.
//! 21. [`debug_page`]: what an operator works on and waits for, in a browser.
//! 22. `traces`: the inside of reconciles, exported over OTLP (feature `cli`).
//! 23. `production`: a Deployment, its permissions, alerts and tuning (feature `cli`).
//! 24. [`alerts`]: what each alert means, and what to do.
//! 25. [`api_server`]: the embedded API server.
//! 26. [`faults`]: failures on demand.
//! 27. [`simulator`]: the controllers, scheduler and kubelets that it stands in for.
//! 28. [`testing`]: tests of whole operators, in milliseconds.
//! 29. [`exploring`]: crashes, lost answers and old states at each request of an operator.
//! 30. [`troubleshooting`]: error messages, their causes and the remedy.
//! 31. [`coming_from_kube_rs`], [`coming_from_controller_runtime`] and [`coming_from_josdk`]: names side by side.

/// Declares one page. The links between pages get their targets here, because in the book they lead to files.
macro_rules! page {
    ($name:ident, $file:literal) => {
        #[doc = include_str!($file)]
        #[doc = ""]
        #[doc = "[first-operator]: crate::guide::first_operator"]
        #[doc = "[concepts]: crate::guide::concepts"]
        #[doc = "[reconcilers]: crate::guide::reconcilers"]
        #[doc = "[retries]: crate::guide::retries"]
        #[doc = "[desired-sets]: crate::guide::desired_sets"]
        #[doc = "[watches]: crate::guide::watches"]
        #[doc = "[cache]: crate::guide::cache"]
        #[doc = "[memory]: crate::guide::memory"]
        #[doc = "[client]: crate::guide::client"]
        #[doc = "[manager]: crate::guide::manager"]
        #[doc = "[program]: crate::guide::program"]
        #[doc = "[configuration]: crate::guide::configuration"]
        #[doc = "[clusters]: crate::guide::clusters"]
        #[doc = "[webhooks]: crate::guide::webhooks"]
        #[doc = "[certificates]: crate::guide::certificates"]
        #[doc = "[versions]: crate::guide::versions"]
        #[doc = "[probes-and-metrics]: crate::guide::probes_and_metrics"]
        #[doc = "[debug-page]: crate::guide::debug_page"]
        #[doc = "[traces]: crate::guide::traces"]
        #[doc = "[events]: crate::guide::events"]
        #[doc = "[leader-election]: crate::guide::leader_election"]
        #[doc = "[sharing-the-work]: crate::guide::sharing_the_work"]
        #[doc = "[production]: crate::guide::production"]
        #[doc = "[alerts]: crate::guide::alerts"]
        #[doc = "[api-server]: crate::guide::api_server"]
        #[doc = "[faults]: crate::guide::faults"]
        #[doc = "[simulator]: crate::guide::simulator"]
        #[doc = "[testing]: crate::guide::testing"]
        #[doc = "[exploring]: crate::guide::exploring"]
        #[doc = "[troubleshooting]: crate::guide::troubleshooting"]
        #[doc = "[coming-from-kube-rs]: crate::guide::coming_from_kube_rs"]
        #[doc = "[coming-from-controller-runtime]: crate::guide::coming_from_controller_runtime"]
        #[doc = "[coming-from-josdk]: crate::guide::coming_from_josdk"]
        pub mod $name {}
    };
}

page!(first_operator, "../guide/first-operator.md");
page!(concepts, "../guide/concepts.md");
page!(reconcilers, "../guide/reconcilers.md");
page!(retries, "../guide/retries.md");
page!(desired_sets, "../guide/desired-sets.md");
page!(watches, "../guide/watches.md");
page!(cache, "../guide/cache.md");
page!(memory, "../guide/memory.md");
page!(client, "../guide/client.md");
page!(manager, "../guide/manager.md");
#[cfg(feature = "cli")]
page!(program, "../guide/program.md");
#[cfg(feature = "cli")]
page!(configuration, "../guide/configuration.md");
page!(clusters, "../guide/clusters.md");
page!(webhooks, "../guide/webhooks.md");
page!(certificates, "../guide/certificates.md");
page!(versions, "../guide/versions.md");
page!(probes_and_metrics, "../guide/probes-and-metrics.md");
page!(debug_page, "../guide/debug-page.md");
#[cfg(feature = "cli")]
page!(traces, "../guide/traces.md");
page!(events, "../guide/events.md");
page!(leader_election, "../guide/leader-election.md");
page!(sharing_the_work, "../guide/sharing-the-work.md");
#[cfg(feature = "cli")]
page!(production, "../guide/production.md");
page!(alerts, "../guide/alerts.md");
page!(api_server, "../guide/api-server.md");
page!(faults, "../guide/faults.md");
page!(simulator, "../guide/simulator.md");
page!(testing, "../guide/testing.md");
page!(exploring, "../guide/exploring.md");
page!(troubleshooting, "../guide/troubleshooting.md");
page!(coming_from_kube_rs, "../guide/coming-from-kube-rs.md");
page!(
    coming_from_controller_runtime,
    "../guide/coming-from-controller-runtime.md"
);
page!(coming_from_josdk, "../guide/coming-from-josdk.md");

#[cfg(test)]
mod tests;
