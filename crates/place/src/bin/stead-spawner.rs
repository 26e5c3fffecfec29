//! The spawner by itself, for tests of this crate and for whoever uses it without the rest of Stead.

fn main() -> std::io::Result<()> {
    stead_place::spawner::run()
}
