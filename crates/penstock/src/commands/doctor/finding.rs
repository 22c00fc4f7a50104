//! Findings of the doctor.

/// Findings that belong together, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    KernelTls,
    Ciphers,
    Sockets,
    Limits,
    Files,
    Fleet,
    Configuration,
}

/// The rating of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rating {
    Ok,
    /// Penstock works, and would work better with this.
    Better(String),
    /// Something is slow or fails until it is like this.
    Problem(String),
    /// The system does not report the value.
    Unknown,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) section: Section,
    /// A stable name for scripts: that of a sysctl or of the doctor.
    pub(crate) name: &'static str,
    /// Its title in the table.
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) rating: Rating,
    /// Why it matters, in a sentence.
    pub(crate) why: String,
    /// The command that changes it, as root.
    pub(crate) command: Option<String>,
}

impl Section {
    pub(crate) const ALL: [Self; 7] = [
        Self::KernelTls,
        Self::Ciphers,
        Self::Sockets,
        Self::Limits,
        Self::Files,
        Self::Fleet,
        Self::Configuration,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::KernelTls => "Kernel TLS",
            Self::Ciphers => "Ciphers",
            Self::Sockets => "Sockets",
            Self::Limits => "Limits",
            Self::Files => "Files",
            Self::Fleet => "Fleet",
            Self::Configuration => "Configuration",
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::KernelTls => "kernel_tls",
            Self::Ciphers => "ciphers",
            Self::Sockets => "sockets",
            Self::Limits => "limits",
            Self::Files => "files",
            Self::Fleet => "fleet",
            Self::Configuration => "configuration",
        }
    }
}

impl Rating {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Better(_) => "better",
            Self::Problem(_) => "problem",
            Self::Unknown => "unknown",
        }
    }

    /// The wanted value.
    pub(crate) fn wanted(&self) -> Option<&str> {
        match self {
            Self::Better(wanted) | Self::Problem(wanted) => Some(wanted),
            Self::Ok | Self::Unknown => None,
        }
    }
}

impl Finding {
    /// A value that is as it should be; the methods below lower the rating.
    pub(crate) fn ok(
        section: Section,
        name: &'static str,
        what: impl Into<String>,
        value: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let (what, value, why) = (what.into(), value.into(), why.into());
        Self { section, name, what, value, rating: Rating::Ok, why, command: None }
    }

    /// A value that the system does not report.
    pub(crate) fn unknown(
        section: Section,
        name: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { rating: Rating::Unknown, ..Self::ok(section, name, what, "not known", why) }
    }

    /// It would be better like this, by this command.
    pub(crate) fn better_if(
        self,
        condition: bool,
        wanted: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        self.judged(condition, Rating::Better(wanted.into()), command.into())
    }

    /// It has to be like this, by this command.
    pub(crate) fn problem_if(
        self,
        condition: bool,
        wanted: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        self.judged(condition, Rating::Problem(wanted.into()), command.into())
    }

    fn judged(self, condition: bool, rating: Rating, command: String) -> Self {
        if !condition {
            return self;
        }
        // Where there is nothing to type, the rating says it all.
        Self { rating, command: (!command.is_empty()).then_some(command), ..self }
    }
}
