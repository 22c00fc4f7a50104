//! On whose behalf something is fetched: a client, or another node of the cluster.

use std::net::IpAddr;

/// The sender of a request, and of the fetches that it causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A client at this address; behind a balancer, the one that the balancer names.
    Client(IpAddr),
    /// Another node of the cluster, which has applied the limits of its client.
    Peer(Hop),
}

/// What a node asks another one for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// An object that the other node owns.
    Owner,
    /// An object that the other node fetches for all owners.
    Shield,
    /// An object only if the other node has it.
    OnlyIfCached,
}

impl Hop {
    /// The word in requests.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Shield => "shield",
            Self::OnlyIfCached => "held",
        }
    }

    /// The hop with this word.
    pub(crate) fn named(label: &[u8]) -> Option<Self> {
        [Self::Owner, Self::Shield, Self::OnlyIfCached]
            .into_iter()
            .find(|hop| hop.label().as_bytes() == label)
    }
}
