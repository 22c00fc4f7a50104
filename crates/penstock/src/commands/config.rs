//! `penstock config`: makes configurations.

use std::io;
use std::path::Path;

use penstock_config::{has_key, read_file, read_files};
use penstock_nginx::{Translation, parse, translate};

use crate::arguments::{ConfigArgs, ConfigCommand};
use crate::failure::Failure;
use crate::terminal;

pub(crate) fn run(arguments: &ConfigArgs) -> Result<(), Failure> {
    let ConfigCommand::FromNginx { file } = &arguments.command;
    let text = read_file(file)
        .map_err(|why| Failure::machine(format!("read {}", file.display()))(io::Error::other(why)))?;
    // As nginx does, paths of included files start at the directory of the main one.
    let from = file.parent().unwrap_or_else(|| Path::new(""));
    let finder = |pattern: &str| {
        let files = read_files(pattern, from)?;
        Ok(files.into_iter().map(|(path, text)| (path.display().to_string(), text)).collect())
    };
    let directives = parse(&text, &file.display().to_string(), &finder)
        .map_err(|fault| Failure::Usage(fault.to_string()))?;
    let Translation { yaml, remarks } = translate(directives, &has_key);
    let mut lines = vec![format!("# Translated from {} by penstock config from-nginx.", file.display())];
    if !remarks.is_empty() {
        lines.push("# Not translated, or not in full:".to_owned());
        lines.extend(remarks.iter().map(|remark| format!("#   {remark}")));
    }
    terminal::say(&format!("{}\n\n{}", lines.join("\n"), yaml.trim_end()));
    Ok(())
}
