//! Connections one after the other: each shakes hands, asks for something small, and ends.

use std::net::SocketAddr;

use super::{Reading, ask, back_off};
use crate::failure::Failure;
use crate::net::Opening;
use crate::run::Worker;

pub(super) async fn slot(worker: &Worker, request: bool) {
    while let Some(due) = worker.next_start().await {
        let address = worker.next_address();
        let outcome = once(worker, address, request).await;
        worker.finish(due, outcome);
        if let Err(failure) = outcome {
            back_off(worker, failure).await;
        }
    }
}

async fn once(worker: &Worker, address: SocketAddr, request: bool) -> Result<(), Failure> {
    let (mut link, opening) = worker.connect(address).await?;
    if request {
        let request = worker.chooser.borrow_mut().choose();
        let answered = ask(worker, (&mut link, address), &request, &Reading::DROP).await;
        note_early(worker, address, &link, &opening);
        if let Err(failure) = answered {
            worker.blame(address, &link, &request, failure);
            return Err(failure);
        }
    } else {
        worker.connector.await_session(&mut link).await;
        note_early(worker, address, &link, &opening);
        worker.tally().succeeded += 1;
    }
    link.close();
    Ok(())
}

fn note_early(worker: &Worker, address: SocketAddr, link: &crate::net::Link, opening: &Opening) {
    if opening.early_data && !link.is_in_early_data() {
        worker.note_handshake(address, link, opening);
    }
}
