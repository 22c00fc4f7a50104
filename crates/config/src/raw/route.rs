//! Sites and their routes.

use serde_saphyr::Spanned;

use super::SiteSettings;
use crate::section::{Sections, Text, Texts, section};

section! {
    /// The content of some host names.
    Site {
        /// Host names: `video.example.com`, `*.example.com` (one label), `*` (all others). Ports do not belong here.
        hosts: Texts, "list", "[\"*\"]";
        /// Names of the listeners on which the site answers.
        listeners: Texts, "list of names", "all listeners";
        ..settings: SiteSettings;
        /// Parts of the site with other settings, by path and other properties of the request: the first route that matches answers. See [rules.md](rules.md#routes).
        routes: Sections<Route>, "list", "[]";
    }
}

section! {
    /// A part of a site. Keys that are not written here are those of the site.
    Route {
        /// The paths of its requests: `/live/*`, `*.mp4`, `/{channel}/index.m3u8`, or one path; see [rules.md](rules.md#paths).
        path: Text, "path with `*` and `{name}`", "/*";
        /// Further conditions, all of which have to hold.
        when: Spanned<Conditions>, "section", "no conditions";
        ..settings: SiteSettings;
    }
}

section! {
    /// Conditions of a route.
    Conditions {
        /// Methods of its requests. GET stands for HEAD as well.
        methods: Texts, "list of names", "all methods";
        /// Parameters of the query: `name` is there, `!name` is not, `name=value` has this value.
        query: Texts, "list of conditions", "[]";
        /// Fields of the request, in the same form.
        headers: Texts, "list of conditions", "[]";
    }
}

section! {
    /// A redirect of all requests.
    Redirect {
        /// The new place: a path or a URL, with variables such as `{rest}`. The query is kept, unless `to` has one.
        to: Text, "path or URL", "required";
        /// 301 and 308 are permanent, 302, 303 and 307 are not. With 307 and 308 the method stays.
        status: Text, "`301`, `302`, `303`, `307`, `308`", "308";
    }
}

section! {
    /// A response without an origin.
    Respond {
        /// The status.
        status: Text, "number from 200 to 599", "200";
        /// The content, at most 64 KiB.
        body: Text, "text", "empty";
        /// Content-Type.
        type_ as "type": Text, "media type", "text/plain; charset=utf-8";
    }
}

section! {
    /// A page in place of those of this server, or of the origin too.
    ErrorPage {
        /// Its statuses.
        status: Texts, "list of numbers from 400 to 599", "required";
        /// The file with its content, at most 64 KiB. Read at the start and by SIGHUP.
        file: Text, "file", "required";
        /// Content-Type.
        type_ as "type": Text, "media type", "by the name of the file";
        /// Whether it also replaces the content of the origin's responses with these statuses.
        origin: Text, "`true`, `false`", "false";
    }
}
