//! An environment as its place is told of it.

use stead_domain::Result;
use stead_domain::definition::{SecretDelivery, Spec};
use stead_domain::environment::Environment;

use crate::{App, Premises};

impl App {
    pub(crate) fn premises(&self, environment: &Environment) -> Result<Premises> {
        Ok(Premises {
            environment: environment.id,
            sandbox: environment.sandbox_id,
            stack: environment.stack.clone(),
            name: environment.name.clone(),
            spec: environment.spec.clone(),
            spec_version: environment.spec_version,
            authority: if has_brokered(&environment.spec) { Some(self.authority(environment.id)?) } else { None },
            allow_unenforced: environment.allow_unenforced,
        })
    }
}

fn has_brokered(spec: &Spec) -> bool {
    spec.secret_bindings.iter().flatten().any(|binding| binding.delivery == SecretDelivery::Broker)
}
