//! Which checkpoint came from which, drawn with the environments that stand on them now.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use stead_client::{Client, EnvironmentFilter};
use stead_domain::checkpoint::Checkpoint;
use stead_domain::environment::{Environment, ScopeFilter};
use stead_domain::ids::{CheckpointId, EnvironmentId};

use crate::arguments::environment::Reference;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::{escape, human};
use crate::references;

#[derive(Serialize)]
struct Family {
    checkpoints: Vec<Checkpoint>,
    /// The environments whose files come from one of them.
    environments: Vec<Standing>,
}

#[derive(Serialize)]
struct Standing {
    environment_id: EnvironmentId,
    name: String,
    checkpoint_id: CheckpointId,
}

pub async fn run(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let family = family(&client, &environment).await?;
    let ids: Vec<String> = family.checkpoints.iter().map(|checkpoint| checkpoint.id.to_string()).collect();
    invocation.printer.record(&family, &ids.join("\n"), |printer| {
        if family.checkpoints.is_empty() {
            printer.note(&format!("{0} has no checkpoints; make one: stead checkpoint create {0}", environment.name));
            return Ok(());
        }
        let names = client_names(&family, &environment);
        let age = |checkpoint: &Checkpoint| human::age(invocation.now(), checkpoint.created_at);
        drawn(&family, &names, &age).iter().try_for_each(|line| printer.line(line))
    })
}

/// Everything that hangs together with the checkpoints of an environment.
async fn family(client: &Client, environment: &Environment) -> Result<Family> {
    let filter = EnvironmentFilter { scope: Some(ScopeFilter::Any), ..EnvironmentFilter::default() };
    let environments = references::all(async |options| client.list_environments(&filter, &options).await).await?;
    let mut all: BTreeMap<CheckpointId, Checkpoint> = BTreeMap::new();
    for other in environments.iter().filter(|other| other.id == environment.id || other.runtime.checkpoint_id.is_some()) {
        for checkpoint in references::all(async |options| client.list_checkpoints(other.id, &options).await).await? {
            all.insert(checkpoint.id, checkpoint);
        }
    }
    let root = |mut id: CheckpointId| {
        while let Some(parent) = all.get(&id).and_then(|checkpoint| checkpoint.parent_id) {
            id = parent;
        }
        id
    };
    let own = all.values().filter(|checkpoint| checkpoint.environment_id == environment.id).map(|checkpoint| checkpoint.id);
    let wanted: Vec<CheckpointId> = own.chain(environment.runtime.checkpoint_id).map(root).collect();
    let checkpoints: Vec<Checkpoint> = all.values().filter(|checkpoint| wanted.contains(&root(checkpoint.id))).cloned().collect();
    let standing = environments.iter().filter_map(|environment| {
        let checkpoint_id = environment.runtime.checkpoint_id.filter(|id| wanted.contains(&root(*id)))?;
        Some(Standing { environment_id: environment.id, name: environment.name.clone(), checkpoint_id })
    });
    let environments = standing.collect();
    Ok(Family { checkpoints, environments })
}

fn client_names(family: &Family, environment: &Environment) -> HashMap<EnvironmentId, String> {
    let others = family.environments.iter().map(|standing| (standing.environment_id, standing.name.clone()));
    others.chain([(environment.id, environment.name.clone())]).collect()
}

/// One line each, with the lines of those that came from it below it.
fn drawn(family: &Family, names: &HashMap<EnvironmentId, String>, age: &dyn Fn(&Checkpoint) -> String) -> Vec<String> {
    let known: HashMap<CheckpointId, &Checkpoint> = family.checkpoints.iter().map(|checkpoint| (checkpoint.id, checkpoint)).collect();
    let mut below: BTreeMap<CheckpointId, Vec<&Checkpoint>> = BTreeMap::new();
    let mut tops = Vec::new();
    for checkpoint in &family.checkpoints {
        match checkpoint.parent_id {
            Some(parent) => below.entry(parent).or_default().push(checkpoint),
            None => tops.push(checkpoint.id),
        }
    }
    // Those that were deleted still are where others came from.
    tops.extend(below.keys().filter(|parent| !known.contains_key(parent)));
    tops.extend(family.environments.iter().map(|standing| standing.checkpoint_id).filter(|id| !known.contains_key(id)));
    tops.sort();
    tops.dedup();
    let mut lines = Vec::new();
    // Without recursion: a chain may be long.
    let mut next: Vec<(CheckpointId, String, String)> = tops.into_iter().rev().map(|top| (top, String::new(), String::new())).collect();
    while let Some((id, first, rest)) = next.pop() {
        let text = match known.get(&id) {
            Some(checkpoint) => {
                let name = checkpoint.name.as_deref().map_or_else(|| id.to_string(), |name| format!("{name}  {id}"));
                let whose = names.get(&checkpoint.environment_id).map_or("(deleted)", String::as_str);
                format!("{name}  {whose}, {} ago, {}", age(checkpoint), checkpoint.state)
            }
            None => format!("{id}  deleted"),
        };
        lines.push(format!("{first}o {}", escape::line(&text)));
        let here: Vec<&Standing> = family.environments.iter().filter(|standing| standing.checkpoint_id == id).collect();
        let children = below.get(&id).map_or(&[][..], Vec::as_slice);
        for (at, standing) in here.iter().enumerate() {
            let last = children.is_empty() && at + 1 == here.len();
            lines.push(format!("{rest}{}* {} now", if last { "`- " } else { "|- " }, escape::line(&standing.name)));
        }
        for (at, child) in children.iter().enumerate().rev() {
            let last = at + 1 == children.len();
            let (branch, further) = if last { ("`- ", "   ") } else { ("|- ", "|  ") };
            next.push((child.id, format!("{rest}{branch}"), format!("{rest}{further}")));
        }
    }
    lines
}
