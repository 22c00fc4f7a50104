//! Connections one after the other: each shakes hands, asks for something small, and ends.

use std::net::SocketAddr;

use super::{Reading, ask, back_off};
use crate::failure::Failure;
use crate::net::{Link, Opening};
use crate::run::Worker;

pub(super) async fn slot(worker: &Worker, request: bool) {
    while let Some(due) = worker.next_start().await {
        let address = worker.next_address();
        match once(worker, address, request).await {
            Ok((mut link, opening)) => {
                worker.finish(due, Ok(()));
                // A ticket may come after all that was wanted: with early data, the response does not wait for it.
                if !request || opening.early_data {
                    worker.connector.await_session(&mut link).await;
                }
                link.close();
            }
            Err(failure) => {
                worker.finish(due, Err(failure));
                back_off(worker, failure).await;
            }
        }
    }
}

/// The connection is still open when all that was wanted of it is there.
async fn once(worker: &Worker, address: SocketAddr, request: bool) -> Result<(Link, Opening), Failure> {
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
        worker.tally().succeeded += 1;
    }
    Ok((link, opening))
}

fn note_early(worker: &Worker, address: SocketAddr, link: &Link, opening: &Opening) {
    if opening.early_data && !link.is_in_early_data() {
        worker.note_handshake(address, link, opening);
    }
}
