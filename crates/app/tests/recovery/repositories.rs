//! Credentials for what runs inside, which has nothing but the warrant that it was started under.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use stead_app::environments::NewEnvironment;
use stead_app::leases::AcquireEnvironment;
use stead_app::{App, GitFailure, GitHost, InstallationToken, Login, Outcome, TokenRequest, UserToken, Warrant};
use stead_domain::definition::Spec;
use stead_domain::environment::Environment;
use stead_domain::ids::LeaseId;
use stead_domain::lease::ReleaseRequest;
use stead_domain::repository::{GitCredentialRequest, GitOperation, Installation, InstallationRepository, Permissions};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Context, Error};

use crate::life::{Life, World, enter};

/// Gives out tokens with a number, for `acme` alone.
struct Host {
    context: Context,
    minted: Mutex<Vec<TokenRequest>>,
    revoked: Mutex<Vec<String>>,
}

#[async_trait]
impl GitHost for Host {
    fn name(&self) -> &str {
        "git.test"
    }

    fn app(&self) -> &str {
        "1"
    }

    fn signs_in(&self) -> bool {
        false
    }

    async fn mint(&self, wanted: &TokenRequest) -> Result<InstallationToken, GitFailure> {
        let mut minted = self.minted.lock().unwrap();
        minted.push(wanted.clone());
        let value = SecretValue::new(format!("ghs_{}", minted.len()).into_bytes());
        Ok(InstallationToken { value, expires_at: self.context.now().plus(Duration::from_secs(3600)) })
    }

    async fn revoke(&self, token: &SecretValue) -> Result<(), GitFailure> {
        self.revoked.lock().unwrap().push(token.text().unwrap().to_owned());
        Ok(())
    }

    async fn account_of(&self, _installation: u64) -> Result<String, GitFailure> {
        Ok("acme".to_owned())
    }

    async fn installations(&self, _user: &SecretValue) -> Result<Vec<Installation>, GitFailure> {
        Err(GitFailure::NoLogin)
    }

    async fn repositories(&self, _user: &SecretValue, _installation: u64) -> Result<Vec<InstallationRepository>, GitFailure> {
        Err(GitFailure::NoLogin)
    }

    fn login_address(&self, _login: Login<'_>) -> Result<String, GitFailure> {
        Err(GitFailure::NoLogin)
    }

    async fn exchange(&self, _code: &str, _verifier: &str) -> Result<UserToken, GitFailure> {
        Err(GitFailure::NoLogin)
    }

    async fn sign_out(&self, _token: &SecretValue) -> Result<(), GitFailure> {
        Err(GitFailure::NoLogin)
    }
}

struct Scene {
    app: App,
    host: Arc<Host>,
    environment: Environment,
}

async fn scene(life: &Life, world: &World, spec: serde_json::Value) -> Scene {
    let host = Arc::new(Host { context: world.context.clone(), minted: Mutex::default(), revoked: Mutex::default() });
    let app = life.app.clone().with_git_host(host.clone(), Permissions::default());
    let entered = enter(&app, &world.context, None).await;
    let spec = Some(Spec::from_value(spec, "spec").unwrap());
    let made = app.create_environment(&entered, NewEnvironment { name: Some("web".to_owned()), spec, ..NewEnvironment::default() });
    let Outcome::New(environment) = made.await.unwrap() else { panic!("it was made before") };
    Scene { app, host, environment }
}

impl Scene {
    async fn ask(&self, warrant: Warrant, name: &str) -> Result<String, Error> {
        let request = GitCredentialRequest { repo_full_name: name.to_owned(), operation: GitOperation::Push };
        let credential = self.app.git_credential_inside(self.environment.id, warrant, request).await?;
        assert_eq!((credential.host.as_str(), credential.repo_full_name.as_str()), ("git.test", "acme/web"));
        Ok(credential.token.clone())
    }

    async fn refused(&self, warrant: Warrant) {
        assert_eq!(self.ask(warrant, "acme/web").await.unwrap_err().code(), Code::FenceStale, "{warrant:?}");
    }
}

#[test]
fn what_runs_gets_a_credential_for_as_long_as_its_lease_lasts() {
    let world = World::sqlite();
    let life = world.live();
    life.run(async {
        let repos = json!({ "repos": { "allowed": ["acme/web"], "github_installation_id": 7 } });
        let scene = scene(&life, &world, repos).await;
        let entered = enter(&scene.app, &world.context, None).await;
        let asked = AcquireEnvironment { environment_id: Some(scene.environment.id), ..AcquireEnvironment::default() };
        let lease = scene.app.acquire_environment(&entered, asked).await.unwrap().lease.unwrap();
        let warrant = Warrant { fence: lease.fence, lease: Some(lease.id) };
        assert_eq!(scene.ask(warrant, "acme/web").await.unwrap(), "ghs_1");
        assert_eq!(scene.ask(warrant, "ACME/web.git").await.unwrap(), "ghs_1", "the same one again");
        assert_eq!(scene.ask(warrant, "acme/lib").await.unwrap_err().code(), Code::RepositoryNotAllowed);
        scene.refused(Warrant { fence: lease.fence + 1, ..warrant }).await;
        scene.refused(Warrant { lease: Some(LeaseId::new(&world.context)), ..warrant }).await;
        scene.refused(Warrant { lease: None, ..warrant }).await;
        scene.app.release_lease(&entered, lease.id, ReleaseRequest { at_release: None }).await.unwrap();
        scene.refused(warrant).await;
        // Whoever is next gets another one, and the holder before still nothing.
        let asked = AcquireEnvironment { environment_id: Some(scene.environment.id), ..AcquireEnvironment::default() };
        let next = scene.app.acquire_environment(&entered, asked).await.unwrap().lease.unwrap();
        assert!(next.fence > lease.fence);
        let given = scene.ask(Warrant { fence: next.fence, lease: Some(next.id) }, "acme/web").await.unwrap();
        scene.refused(warrant).await;
        // What was asked for by somebody who had no right to it is given back with the sweep.
        scene.app.sweep_leases().await.unwrap();
        while !scene.host.revoked.lock().unwrap().contains(&"ghs_1".to_owned()) {
            tokio::task::yield_now().await;
        }
        assert!(!scene.host.revoked.lock().unwrap().contains(&given));
        assert!(scene.host.minted.lock().unwrap().iter().all(|wanted| wanted.repositories == ["acme/web"]));
        scene.app.stop().await;
    });
}

#[test]
fn in_an_open_environment_the_fence_alone_counts() {
    let world = World::sqlite();
    let life = world.live();
    life.run(async {
        let spec = json!({ "repos": { "allowed": ["acme/web"], "github_installation_id": 7 }, "lease": { "policy": "open" } });
        let scene = scene(&life, &world, spec).await;
        let fence = 0;
        scene.ask(Warrant { fence, lease: None }, "acme/web").await.unwrap();
        scene.refused(Warrant { fence: fence + 1, lease: None }).await;
        scene.app.stop().await;
    });
}
