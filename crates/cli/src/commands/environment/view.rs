use stead_domain::definition::{NetworkAccess, Spec};
use stead_domain::environment::Environment;
use stead_domain::posture::{EffectiveField, Enforcement};

use crate::arguments::environment::Reference;
use crate::commands::lease::words;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::Printer;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let printer = invocation.printer;
    printer.record(&environment, &environment.id.to_string(), |printer| show(printer, &environment))
}

pub fn show(printer: &Printer, environment: &Environment) -> Result<()> {
    let status = environment.runtime.provider_status.as_ref();
    let tags: Vec<String> = environment.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    printer.fields(&[
        ("name", Some(environment.name.clone())),
        ("id", Some(environment.id.to_string())),
        ("status", Some(environment.status.to_string())),
        ("last error", environment.last_error.clone()),
        ("held by", words::holder(environment).map(|held| words::named(&held.holder, held.note.as_deref()))),
        ("left", words::holder(environment).map(words::left)),
        ("provider", Some(environment.provider.to_string())),
        ("served by", environment.runtime.provider.filter(|real| *real != environment.provider).map(|real| real.to_string())),
        ("provider says", status.map(|status| format!("{} at {}", status.state, status.observed_at))),
        ("message", status.and_then(|status| status.message.clone())),
        (
            "keeper",
            environment.runtime.draining.then(|| "draining: of another version, it takes no new process and ends with its last".to_owned()),
        ),
        ("sandbox", Some(environment.sandbox_id.to_string())),
        ("purpose", environment.purpose.map(|purpose| purpose.to_string())),
        ("mode", Some(environment.environment_mode.to_string())),
        ("lifetime", Some(environment.lifetime.to_string())),
        ("retention", Some(environment.retention_policy.to_string())),
        ("template", environment.template_id.map(|template| template.to_string())),
        ("definition", Some(format!("version {}, {}", environment.spec_version, environment.fingerprint.get(..12).unwrap_or_default()))),
        ("repositories", repositories(environment)),
        ("secrets", secrets(environment)),
        ("tags", (!tags.is_empty()).then(|| tags.join(", "))),
        ("created", Some(environment.created_at.to_string())),
        ("updated", Some(environment.updated_at.to_string())),
        ("destroyed", environment.destroyed_at.map(|at| at.to_string())),
    ])?;
    if environment.runtime.posture.is_empty() {
        return Ok(());
    }
    printer.block("\n")?;
    posture(printer, &environment.runtime.posture, &environment.spec)
}

pub fn posture(printer: &Printer, fields: &[EffectiveField], spec: &Spec) -> Result<()> {
    let rows: Vec<Vec<String>> = fields
        .iter()
        .map(|field| {
            // The exception is what a reader looks for.
            let mark = match &field.reason {
                _ if field.enforcement == Enforcement::Enforced => String::new(),
                Some(reason) => format!("! {reason}"),
                None => "!".to_owned(),
            };
            vec![field.field.clone(), declared(field, spec), field.enforcement.to_string(), mark]
        })
        .collect();
    printer.table(&["posture", "declared", "enforcement", ""], &rows)
}

/// A list is part of what was declared.
fn declared(field: &EffectiveField, spec: &Spec) -> String {
    let listed = field.field == "sandbox.network_access" && field.declared == NetworkAccess::Allowlist.as_str();
    match spec.sandbox.as_ref().and_then(|sandbox| sandbox.allowed_hosts.as_deref()) {
        Some(hosts) if listed && !hosts.is_empty() => format!("{}: {}", field.declared, hosts.join(", ")),
        _ if listed => format!("{}: no host", field.declared),
        _ => field.declared.clone(),
    }
}

fn repositories(environment: &Environment) -> Option<String> {
    let repos = environment.spec.repos.as_ref()?;
    let allowed = repos.allowed.as_deref().unwrap_or_default();
    let marked = |name: &String| if repos.default.as_ref() == Some(name) { format!("{name} (default)") } else { name.clone() };
    (!allowed.is_empty()).then(|| allowed.iter().map(marked).collect::<Vec<_>>().join(", "))
}

fn secrets(environment: &Environment) -> Option<String> {
    let bindings = environment.spec.secret_bindings.as_deref().filter(|bindings| !bindings.is_empty())?;
    let shown = bindings.iter().map(|binding| if binding.required { binding.name.clone() } else { format!("{} (optional)", binding.name) });
    Some(shown.collect::<Vec<_>>().join(", "))
}
