//! From a client's request to its response, in stages of one fixed order.
//!
//! | stage | decides | file |
//! |---|---|---|
//! | site | which site answers for the authority of the request | `SiteTable::find` |
//! | admit | whether the request may be answered: loop, early data, token | `admit` |
//! | source | where the response comes from: the method and the origin of the site | `source`, then `cached`, `relayed` or `forwarded` |
//! | finish | what the site puts on every response | `finish` |

mod admit;
mod cached;
#[cfg(test)]
mod facts;
mod finish;
mod forwarded;
mod relayed;
mod request_body;
mod source;

use std::rc::Rc;

use penstock_http::Rejection;

use crate::context::Context;
use crate::response::{ClientRequest, Exchange, Response};
use crate::site_table::{SiteNumber, SiteTable};

pub use admit::Refusal;
use admit::admit;
pub(crate) use cached::{from_cache, from_object};
use finish::finish;
pub use request_body::RequestBody;
use source::source;

/// The response to a request, and what is recorded with it.
pub struct Handled {
    /// The response.
    pub response: Response,
    /// The site; `None` if no site answers for the authority, and for other nodes.
    pub site: Option<SiteNumber>,
    /// Why the request was refused.
    pub refusal: Option<Refusal>,
}

impl Handled {
    /// The page for a refused request, without what a site adds.
    pub(crate) fn refused(context: &Rc<Context>, client: ClientRequest<'_>, refusal: Refusal) -> Self {
        let response = Exchange::new(context, client, None).page(refusal.status());
        Self { response, site: None, refusal: Some(refusal) }
    }

    /// Whether the connection has to end behind the response, because the end of the request is not known.
    pub fn ends_connection(&self) -> bool {
        matches!(self.refusal, Some(Refusal::Body(Rejection { close: true, .. })))
    }
}

/// Answers a client's request.
pub(crate) async fn handle_client(
    context: &Rc<Context>,
    sites: &SiteTable,
    client: ClientRequest<'_>,
    body: &mut impl RequestBody,
) -> Handled {
    let site = sites.find(client.head.host());
    let mut exchange = Exchange::new(context, client, site.map(|site| &**site));
    let bare;
    let target;
    let sourced = match site.ok_or(Refusal::NoSite) {
        Err(refusal) => Err(refusal),
        Ok(site) => match admit(context, site, client) {
            Err(refusal) => Err(refusal),
            Ok(admitted) => {
                if let Some(admitted) = admitted {
                    bare = admitted;
                    target = client.head.with_target(bare.path, bare.query.as_deref());
                    exchange.request = &target;
                }
                source(&exchange, site, body).await.map_err(Refusal::Body)
            }
        },
    };
    let (mut response, refusal) = match sourced {
        Ok(response) => (response, None),
        Err(refusal) => {
            if !matches!(refusal, Refusal::Body(_)) {
                // The page says enough. A body that cannot be read past ends the connection.
                let _is_unread = body.pass_over().await;
            }
            (exchange.page(refusal.status()), Some(refusal))
        }
    };
    finish(&exchange, &mut response);
    Handled { response, site: site.map(|site| site.number()), refusal }
}
