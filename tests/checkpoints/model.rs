//! Random sequences of writing, checkpoints, restores, forks and deletions, compared byte by byte with plain copies.

use serde_json::{Value, json};

use super::Spot;
use super::tree::{MANIFEST, Tree};
use crate::api::world::{expect, text};
use crate::crashes::{Dice, proving};
use crate::support::Server;

struct Sealed {
    of: String,
    checkpoint: Value,
    tree: Tree,
}

struct World<'a> {
    server: &'a Server,
    dice: Dice,
    spots: Vec<(Spot, Tree)>,
    sealed: Vec<Sealed>,
    log: Vec<String>,
    /// Something runs all the time, and goes on.
    freezes: bool,
}

impl World<'_> {
    fn step(&mut self) {
        let at = self.dice.roll(self.spots.len() as u64) as usize;
        match self.dice.roll(10) {
            0..=3 => self.write(at),
            4 | 5 => {
                let (spot, tree) = &self.spots[at];
                self.log.push(format!("{} checkpoint", spot.id));
                let wait = if self.dice.roll(2) == 0 { "sealed" } else { "durable" };
                let (on_running, runs) = if self.freezes { ("freeze", Some(spot.begins("sleep 600"))) } else { ("busy", None) };
                let checkpoint = spot.checkpoint(json!({"wait": wait, "on_running": on_running}));
                assert!(runs.is_none_or(|runs| spot.runs(&runs)), "after\n{}", self.log.join("\n"));
                self.sealed.push(Sealed { of: spot.id.clone(), checkpoint, tree: tree.clone() });
            }
            6 if !self.sealed.is_empty() => {
                let from = self.dice.roll(self.sealed.len() as u64) as usize;
                self.log.push(format!("{} restore {}", self.spots[at].0.id, self.sealed[from].checkpoint["id"]));
                self.spots[at].0.restore(&self.sealed[from].checkpoint);
                self.spots[at].1 = self.sealed[from].tree.clone();
                self.compare(at);
            }
            7 | 8 if self.spots.len() < 5 => {
                let (spot, tree) = self.spots[at].clone();
                let from = self.dice.roll(self.sealed.len() as u64 + 1) as usize;
                let (body, tree) = match self.sealed.get(from) {
                    Some(sealed) => (json!({"checkpoint_id": sealed.checkpoint["id"]}), sealed.tree.clone()),
                    None => (json!({"on_running": if self.freezes { "freeze" } else { "busy" }}), tree),
                };
                self.log.push(format!("{} fork {body}", spot.id));
                let fork = spot.fork(body).remove(0);
                self.spots.push((fork, tree));
                self.compare(self.spots.len() - 1);
            }
            9 if self.dice.roll(2) == 0 && !self.sealed.is_empty() => {
                let gone = self.sealed.swap_remove(self.dice.roll(self.sealed.len() as u64) as usize);
                self.log.push(format!("delete {}", gone.checkpoint["id"]));
                let http = self.server.http();
                let path = format!("{}/{}/checkpoints/{}", crate::api::world::ENVIRONMENTS, gone.of, text(&gone.checkpoint, "id"));
                assert_eq!(http.delete(&path).status, 204);
            }
            9 if self.spots.len() > 1 => {
                let (spot, _) = self.spots.swap_remove(at);
                self.log.push(format!("{} delete", spot.id));
                spot.delete();
                self.sealed.retain(|sealed| sealed.of != spot.id);
            }
            _ => self.write(at),
        }
    }

    fn write(&mut self, at: usize) {
        let (spot, tree) = &mut self.spots[at];
        let commands: Vec<String> = (0..=self.dice.roll(4)).map(|_| tree.change(&mut self.dice)).collect();
        self.log.push(format!("{} {}", spot.id, commands.join("; ")));
        let script = format!("set -e; {}", commands.join("; "));
        spot.works(&script);
        self.compare(at);
    }

    fn compare(&self, at: usize) {
        let (spot, tree) = &self.spots[at];
        let found = spot.works(MANIFEST);
        assert_eq!(found, tree.manifest(), "after\n{}", self.log.join("\n"));
    }
}

#[test]
fn random_sequences_are_what_plain_copies_would_be() {
    sequences(&Server::start(), if proving() { 500 } else { 12 }, false);
}

/// So many of them on a server, from the same seeds every time.
pub fn sequences(server: &Server, count: u64, freezes: bool) {
    for seed in 0..count {
        let spot = Spot::new(&server.http(), &format!("model-{seed}-{freezes}"));
        let spots = vec![(spot, Tree::default())];
        let mut world = World { server, dice: Dice(seed + 1), spots, sealed: Vec::new(), log: Vec::new(), freezes };
        for _ in 0..20 {
            world.step();
        }
        // At the end everything is as it should be, also what was not looked at for long.
        for at in 0..world.spots.len() {
            world.compare(at);
        }
        for sealed in &world.sealed {
            let (spot, tree) = (&world.spots[0].0, &sealed.tree);
            spot.restore(&sealed.checkpoint);
            assert_eq!(spot.works(MANIFEST), tree.manifest(), "after\n{}", world.log.join("\n"));
        }
        for (spot, _) in &world.spots {
            expect(&spot.http.delete(&spot.path("")), 200);
        }
    }
}
