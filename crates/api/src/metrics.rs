//! Prometheus metrics. Labels are routes and statuses, never ids or names.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

pub type Handle = PrometheusHandle;

/// Sets up the one recorder of the process.
pub fn install() -> Result<Handle, String> {
    let buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    let builder = PrometheusBuilder::new().set_buckets(&buckets).map_err(|error| error.to_string())?;
    let handle = builder.install_recorder().map_err(|error| error.to_string())?;
    metrics::describe_counter!("stead_http_requests_total", "Requests by method, route and status");
    metrics::describe_histogram!("stead_http_request_seconds", metrics::Unit::Seconds, "How long requests took");
    metrics::describe_gauge!("stead_http_connections", "Open connections");
    metrics::describe_gauge!("stead_info", "The version of the server");
    metrics::gauge!("stead_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Keeps the memory that samples take bounded; somebody must call it now and then, scraped or not.
pub async fn keep_up(handle: Handle) {
    let mut every = tokio::time::interval(std::time::Duration::from_secs(5));
    loop {
        every.tick().await;
        handle.run_upkeep();
    }
}

pub fn request(method: &http::Method, route: &str, status: http::StatusCode, took: std::time::Duration) {
    // Methods are anybody's words; only those that exist become labels.
    let method = match method.as_str() {
        known @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS") => known,
        _ => "other",
    };
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.as_str().to_owned())];
    metrics::counter!("stead_http_requests_total", &labels).increment(1);
    metrics::histogram!("stead_http_request_seconds", &labels[..2]).record(took.as_secs_f64());
}
