//! Tokens that a host of the test's own gives out.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::sync::mpsc;

use async_trait::async_trait;
use stead_domain::context::{Clock, Randomness};
use stead_domain::repository::{Installation, InstallationRepository, Permissions};
use stead_domain::{Code, Timestamp};

use super::*;
use crate::repositories::{Login, UserToken};

#[derive(Default)]
struct Hours(AtomicI64);

impl Clock for Hours {
    fn now(&self) -> Timestamp {
        Timestamp::from_microseconds(self.0.load(Ordering::Relaxed) * 1_000_000)
    }
}

struct Zeros;

impl Randomness for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Gives out tokens with a number, each for an hour.
#[derive(Default)]
struct Host {
    minted: AtomicUsize,
    fails: AtomicBool,
    clock: Arc<Hours>,
}

#[async_trait]
impl GitHost for Host {
    fn web(&self) -> String {
        "https://host.example".to_owned()
    }

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
        assert!(!wanted.repositories.is_empty());
        // Others come while this one is asked.
        tokio::task::yield_now().await;
        let number = self.minted.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(GitFailure::Unprocessable("not there".to_owned()));
        }
        let expires_at = self.clock.now().plus(Duration::from_secs(3600));
        Ok(InstallationToken { value: SecretValue::new(format!("ghs_{number}").into_bytes()), expires_at })
    }

    async fn revoke(&self, _token: &SecretValue) -> Result<(), GitFailure> {
        Ok(())
    }

    async fn account_of(&self, _installation: u64) -> Result<String, GitFailure> {
        Err(GitFailure::NoLogin)
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

struct World {
    host: Host,
    tokens: Tokens,
    context: Context,
    clock: Arc<Hours>,
}

fn world() -> World {
    let clock = Arc::new(Hours::default());
    let context = Context::new(clock.clone(), Arc::new(Zeros));
    World { host: Host { clock: clock.clone(), ..Host::default() }, tokens: Tokens::default(), context, clock }
}

impl World {
    async fn get(&self, project: ProjectId, names: &[&str], holder: Holder) -> Result<String> {
        let repositories = names.iter().map(|name| (*name).to_owned()).collect();
        let wanted = TokenRequest { installation: 7, repositories, permissions: Permissions::default() };
        let token = self.tokens.get(&self.host, &self.context, project, &wanted, holder).await?;
        Ok(token.value.text().unwrap().to_owned())
    }
}

fn project(number: u8) -> ProjectId {
    format!("prj_{number:032x}").parse().unwrap()
}

fn holder(number: u8) -> Holder {
    Holder {
        environment: format!("env_{number:032x}").parse().unwrap(),
        lease: Some(format!("lse_{number:032x}").parse().unwrap()),
        fence: u64::from(number),
    }
}

fn texts(values: Vec<SecretValue>) -> Vec<String> {
    let mut texts: Vec<String> = values.iter().map(|value| value.text().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn one_token_serves_until_five_minutes_before_its_end() {
    let world = world();
    assert_eq!(world.get(project(1), &["acme/web", "acme/lib"], holder(1)).await.unwrap(), "ghs_0");
    assert_eq!(world.get(project(1), &["Acme/Lib", "acme/WEB"], holder(1)).await.unwrap(), "ghs_0", "order and case make no other set");
    world.clock.0.store(3299, Ordering::Relaxed);
    assert_eq!(world.get(project(1), &["acme/web", "acme/lib"], holder(1)).await.unwrap(), "ghs_0");
    world.clock.0.store(3300, Ordering::Relaxed);
    assert_eq!(world.get(project(1), &["acme/web", "acme/lib"], holder(1)).await.unwrap(), "ghs_1");
    // What was given out before is given back too.
    let gone = holder(1);
    assert_eq!(texts(world.tokens.let_go(|holder| *holder == gone)), ["ghs_0", "ghs_1"]);
}

#[tokio::test]
async fn nothing_is_shared_between_projects_sets_or_permissions() {
    let world = world();
    assert_eq!(world.get(project(1), &["acme/web"], holder(1)).await.unwrap(), "ghs_0");
    assert_eq!(world.get(project(2), &["acme/web"], holder(2)).await.unwrap(), "ghs_1");
    assert_eq!(world.get(project(1), &["acme/web", "acme/lib"], holder(1)).await.unwrap(), "ghs_2");
    let wanted =
        TokenRequest { installation: 7, repositories: vec!["acme/web".to_owned()], permissions: Permissions::of([("contents", "read")]) };
    world.tokens.get(&world.host, &world.context, project(1), &wanted, holder(1)).await.unwrap();
    assert_eq!(world.host.minted.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn without_a_repository_nobody_is_asked() {
    let world = world();
    assert_eq!(world.get(project(1), &[], holder(1)).await.unwrap_err().code(), Code::Internal);
    assert_eq!(world.host.minted.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn many_at_once_ask_once_also_when_it_fails() {
    let world = Arc::new(world());
    for fails in [true, false] {
        world.host.fails.store(fails, Ordering::Relaxed);
        let before = world.host.minted.load(Ordering::Relaxed);
        let (sender, outcomes) = mpsc::channel();
        let mut all = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (world, sender) = (Arc::clone(&world), sender.clone());
            all.spawn(async move { sender.send(world.get(project(1), &["acme/web"], holder(number)).await.is_ok()).unwrap() });
        }
        while all.join_next().await.is_some() {}
        drop(sender);
        assert_eq!(outcomes.iter().filter(|is_ok| *is_ok != fails).count(), 20);
        assert_eq!(world.host.minted.load(Ordering::Relaxed) - before, 1);
    }
    assert!(world.tokens.known().slots.is_empty(), "nothing is left of who waited");
}

#[tokio::test]
async fn a_token_is_given_back_when_the_last_holder_lets_go() {
    let world = world();
    for number in [1, 2] {
        world.get(project(1), &["acme/web"], holder(number)).await.unwrap();
    }
    let (first, second) = (holder(1), holder(2));
    assert!(world.tokens.let_go(|holder| *holder == first).is_empty());
    // What runs goes on under the lease that the second handed on.
    let third = holder(3);
    world.tokens.hand_over(second.lease.unwrap(), third.lease.unwrap());
    assert!(world.tokens.let_go(|holder| holder.lease == second.lease).is_empty());
    assert_eq!(texts(world.tokens.let_go(|holder| holder.lease == third.lease)), ["ghs_0"]);
    assert!(world.tokens.is_empty());
    assert_eq!(world.get(project(1), &["acme/web"], first).await.unwrap(), "ghs_1", "nobody gets one that was given back");
}

#[tokio::test]
async fn only_so_many_are_remembered() {
    let world = world();
    for number in 0..MOST + 10 {
        world.get(project(1), &[&format!("acme/r{number}")], holder(1)).await.unwrap();
    }
    assert_eq!(world.tokens.known().held.len(), MOST);
    world.clock.0.store(4000, Ordering::Relaxed);
    world.tokens.forget_expired(&world.context);
    assert!(world.tokens.is_empty());
}
