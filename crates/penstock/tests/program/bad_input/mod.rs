//! Requests that are none: the exact answer to each, what becomes of the connection, and what is counted.

mod bodies;
mod cases;
mod heads;
mod paths;
