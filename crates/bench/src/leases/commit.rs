//! What the store itself takes to make the smallest change durable, for whoever is alone with it.

use std::time::Instant;

use stead_store::{Location, StoreError, settings};

use crate::places::samples::Samples;

pub async fn commits(location: &Location, count: usize, samples: &mut Samples) {
    let store = stead_store::open_as_it_is(location).await.unwrap();
    // The first ones open files and connections.
    for number in 0..count + 10 {
        let started = Instant::now();
        let written: Result<(), StoreError> =
            store.write(move |unit| Box::pin(async move { settings::set(unit, "measured", &number.to_string()).await })).await;
        written.unwrap();
        if number >= 10 {
            samples.add(started.elapsed());
        }
    }
    store.close().await;
}
