//! One connection after the other, each with a handshake and a small request.

use std::net::SocketAddr;

use super::ask::{BodyHandling, ask, back_off};
use crate::failure::LoadFailure;
use crate::net::{ConnectReport, HttpConnection};
use crate::worker::LoadThread;

pub(super) async fn slot(worker: &LoadThread, request: bool) {
    while let Some(due) = worker.next_start().await {
        let address = worker.next_address();
        match once(worker, address, request).await {
            Ok((mut link, opening)) => {
                worker.finish(due, Ok(()));
                // A ticket may arrive after the response: with early data the response does not wait for the handshake.
                if !request || opening.early_data {
                    worker.connector.await_session(&mut link).await;
                }
                worker.end_connection(link).await;
            }
            Err(failure) => {
                worker.finish(due, Err(failure));
                back_off(worker, failure).await;
            }
        }
    }
}

/// Performs one operation. The connection is still open when it returns.
async fn once(
    worker: &LoadThread,
    address: SocketAddr,
    request: bool,
) -> Result<(HttpConnection, ConnectReport), LoadFailure> {
    let (mut link, opening) = worker.connect(address).await?;
    if request {
        let request = worker.chooser.borrow_mut().choose();
        let answered = ask(worker, (&mut link, address), &request, &BodyHandling::DROP).await;
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

fn note_early(worker: &LoadThread, address: SocketAddr, link: &HttpConnection, opening: &ConnectReport) {
    if opening.early_data && !link.is_in_early_data() {
        worker.note_handshake(address, link.facts(), opening);
    }
}
