//! The raw form of what a site does for players.

use crate::section::{Sections, Text, Texts, section};

section! {
    /// What a site does with what players say of themselves (CMCD, CTA-5004); see [players.md](players.md#cmcd). In no case is it part of the key of an object.
    Cmcd {
        /// Fetch the object that a player says it will ask for next (`nor`, `nrr`).
        prefetch: Text, "`true`, `false`", "false";
        /// Send it to the origin: the parameter `CMCD` of the query, and the four fields.
        to_origin: Text, "`true`, `false`", "false";
    }
}

section! {
    /// Content steering: which pathway players should use (HLS, DASH); see [players.md](players.md#content-steering).
    Steering {
        /// The path of the steering manifest for HLS players.
        hls: Text, "path", "no path";
        /// The path of the steering manifest for DASH players; it may be that of `hls`.
        dash: Text, "path", "no path";
        /// How long players wait before they ask again.
        ttl: Text, "time", "60s";
        /// The pathways, the preferred one first. Those whose nodes drain or are out come last.
        pathways: Sections<Pathway>, "list", "the nodes of the cluster";
    }
}

section! {
    /// A pathway of a steering manifest.
    Pathway {
        /// The pathway ID of HLS, and the service location of DASH.
        id: Text, "name", "required";
        /// The nodes of the cluster that serve it.
        nodes: Texts, "list of names", "the node of that name, if there is one";
    }
}
