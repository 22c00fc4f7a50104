//! What the server knows and bounds of its clients: networks, idle connections, connections in the accept queue.

mod accept_queue;
mod client_budget;
mod connection_count;
mod departure;
mod idle_connections;
mod inbound;
mod recent_clients;
mod upload;

pub(crate) use accept_queue::AcceptQueue;
pub(crate) use client_budget::ClientBudget;
pub(crate) use connection_count::{ConnectionCount, OpenConnection};
pub(crate) use departure::departure;
pub(crate) use idle_connections::{IdleConnections, IdleEntry};
pub(crate) use inbound::Inbound;
pub(crate) use recent_clients::RecentClients;
pub(crate) use upload::{BodyPiece, ClientBody, Upload};
