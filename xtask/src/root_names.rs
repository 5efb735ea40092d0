//! The names at the root of the library: what a kernel's author meets first, and no more.

use syn::{Item, Visibility};

use crate::{
    failure::{Failure, Result},
    source,
    workspace::Workspace,
};

const ROOT: &str = "lookaside/src/lib.rs";
/// The most names of types and traits.
const TYPES: usize = 12;
/// The most public modules.
const MODULES: usize = 7;

/// Counts the names, and fails if there are more than were agreed.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let file = syn::parse_file(&workspace.read(ROOT)?)
        .map_err(|error| Failure::new(format!("{ROOT}: {error}")))?;
    let (types, modules) = names(&file);
    println!("{ROOT}: {} names: {}", types.len(), types.join(", "));
    println!("{ROOT}: {} modules: {}", modules.len(), modules.join(", "));
    if types.len() > TYPES || modules.len() > MODULES {
        let most = format!("at most {TYPES} names and {MODULES} modules");
        return Err(Failure::new(format!("{ROOT}: {most} belong at the root")));
    }
    Ok(())
}

/// The names that a root re-exports, and its public modules.
fn names(file: &syn::File) -> (Vec<String>, Vec<String>) {
    let (mut types, mut modules) = (Vec::new(), Vec::new());
    for item in &file.items {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                types.extend(source::imports(&item.tree).into_iter().map(|import| import.name))
            }
            Item::Mod(item) if is_public(&item.vis) => modules.push(item.ident.to_string()),
            _ => {}
        }
    }
    (types, modules)
}

const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modules_are_counted_if_they_are_public() {
        let file =
            "pub mod a; mod b; pub use a::{b::{C, D as E}, F}; pub(crate) use a::G; use b::H;";
        let (types, modules) = names(&syn::parse_file(file).unwrap());
        assert_eq!((types.join(" "), modules.join(" ")), ("C E F".to_owned(), "a".to_owned()));
    }
}
