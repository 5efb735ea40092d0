//! One source that holds all mutants: each is chosen at run time, by its number.
//!
//! A generated mutant is a wrapped expression (see [`super::sites`]). A written one is the body of
//! each function that its edit changes, beside the original body. An edit that changes more than
//! bodies cannot be chosen at run time, and is built by itself.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{
    Block, Signature,
    visit::{self, Visit},
};

use super::{
    effects::Effects,
    record::{C_INTERFACE, Mutant},
    sites::{self, Site, Whole, is_test},
};
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// Where the library's source is.
const SOURCE: &str = "lookaside/src/";
/// The file to which the module is added that knows which mutant is chosen.
const ROOT: &str = "lookaside/src/lib.rs";
/// That module.
const MODULE: &str = "lookaside/src/mutant.rs";
/// Executes real instructions, which the explorer cannot.
const NATIVE: &str = "/insn.rs";

/// Text that is put around places of a file. Nothing is taken out, and no line is added, so that
/// positions in reports are those of the original.
pub(super) struct Edits<'t> {
    text: &'t str,
    /// Outer ones come before inner ones.
    wraps: Vec<Wrap>,
}

/// From where to where, what goes before and what goes after.
struct Wrap {
    place: Range<usize>,
    before: String,
    after: String,
    /// The number of the site where the compiler may refuse it.
    site: Option<u32>,
}

/// The places of an instrumented text where code was inserted for sites, by the number of the site's first change.
pub(super) type Inserted = Vec<(Range<usize>, u32)>;

impl<'t> Edits<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, wraps: Vec::new() }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn wrap(
        &mut self,
        place: Range<usize>,
        before: impl Into<String>,
        after: impl Into<String>,
    ) {
        self.wraps.push(Wrap { place, before: before.into(), after: after.into(), site: None });
    }

    /// As [`Self::wrap`], for a site where code is moved.
    pub(super) fn insert(
        &mut self,
        site: u32,
        place: Range<usize>,
        before: impl Into<String>,
        after: impl Into<String>,
    ) {
        let (before, after) = (before.into(), after.into());
        self.wraps.push(Wrap { place, before, after, site: Some(site) });
    }

    /// The line, without blanks, that a place is in.
    pub(super) fn line(&self, place: usize) -> Range<usize> {
        let start = self.text[..place].rfind('\n').map_or(0, |end| end + 1);
        let end = self.text[place..].find('\n').map_or(self.text.len(), |end| place + end);
        let line = &self.text[start..end];
        let blanks = line.len() - line.trim_start().len();
        start + blanks..start + line.trim_end().len()
    }

    /// The text with all of it, and where it was inserted for sites.
    pub(super) fn apply(&self) -> (String, Inserted) {
        let mut inserts = Vec::new();
        for (number, wrap) in self.wraps.iter().enumerate() {
            let number = isize::try_from(number).expect("files are small");
            // At one place what ends comes first, the innermost before the others.
            inserts.push(((wrap.place.end, 0, -number), &wrap.after, wrap.site));
            inserts.push(((wrap.place.start, 1, number), &wrap.before, wrap.site));
        }
        inserts.sort_by_key(|(key, ..)| *key);
        let mut instrumented = String::with_capacity(self.text.len() * 2);
        let mut inserted = Inserted::new();
        let mut at = 0;
        for ((place, ..), insert, site) in inserts {
            instrumented.push_str(&self.text[at..place]);
            if let Some(site) = site {
                inserted.push((instrumented.len()..instrumented.len() + insert.len(), site));
            }
            instrumented.push_str(insert);
            at = place;
        }
        instrumented.push_str(&self.text[at..]);
        (instrumented, inserted)
    }
}

/// All mutants in one source.
#[derive(Debug)]
pub(super) struct Instrumented {
    /// The files that differ from the workspace's, and their text.
    pub(super) files: BTreeMap<String, String>,
    /// The numbers of the written mutants that are in it.
    pub(super) written: BTreeMap<String, u32>,
    /// The generated ones.
    pub(super) sites: Vec<Site>,
    /// Where code stands that the compiler may refuse, by file.
    pub(super) inserted: BTreeMap<String, Inserted>,
}

/// Instruments all mutants into the workspace's source, without those at sites of these names. No mutant is
/// changed by which others are tried.
pub(super) fn instrument(
    workspace: &Workspace,
    mutants: &[Mutant],
    unviable: BTreeSet<String>,
) -> Result<Instrumented> {
    let mut instrumented = Instrumented {
        files: BTreeMap::new(),
        written: BTreeMap::new(),
        sites: Vec::new(),
        inserted: BTreeMap::new(),
    };
    let mut next = 1;
    let files = workspace.files()?;
    let is_source = |file: &&String| file.starts_with(SOURCE) && file.ends_with(".rs");
    let mut modules = Modules::default();
    for file in files.iter().filter(is_source) {
        modules.read(file, &workspace.read(file)?)?;
    }
    let effects = Effects::of(modules.shipped().map(|(_, (_, syntax))| syntax));
    let whole = Whole { effects, unviable };
    for file in files.iter().filter(is_source) {
        let (text, syntax) = &modules.files[file];
        let mut edits = Edits::new(text);
        for (name, number) in write_in(mutants, (file, syntax), "crate", &mut next, &mut edits)? {
            instrumented.written.insert(name, number);
        }
        if modules.is_shipped(file) {
            let below = file.strip_prefix(SOURCE).expect("the filter demands it");
            let sites = sites::find(below, syntax, &whole, next, &mut edits);
            next += sites.iter().map(|site| site.changes.len() as u32).sum::<u32>();
            instrumented.sites.extend(sites);
        }
        let (mut text, inserted) = edits.apply();
        if file == ROOT {
            text.push_str("#[doc(hidden)]\npub mod mutant;\n");
        }
        syn::parse_file(&text).context(|| format!("{file}, with its mutants"))?;
        instrumented.files.insert(file.clone(), text);
        instrumented.inserted.insert(file.clone(), inserted);
    }
    // In the interface to C only written ones: its functions check arguments and call the library.
    let in_c = |file: &&String| file.starts_with(C_INTERFACE) && file.ends_with(".rs");
    for file in files.iter().filter(in_c) {
        let text = workspace.read(file)?;
        let syntax = syn::parse_file(&text).context(|| file.clone())?;
        let mut edits = Edits::new(&text);
        let written = write_in(mutants, (file, &syntax), "lookaside", &mut next, &mut edits)?;
        if !written.is_empty() {
            instrumented.written.extend(written);
            instrumented.files.insert(file.clone(), edits.apply().0);
        }
    }
    if instrumented.files.insert(MODULE.to_owned(), module(next)).is_some() {
        return Err(Failure::new(format!("{MODULE} is in the way of the mutants")));
    }
    Ok(instrumented)
}

/// Puts the written mutants of a file beside its functions, as far as they change bodies only. `library`: how the file
/// calls the crate that knows which one is chosen. Returns their numbers, from `next` on.
fn write_in(
    mutants: &[Mutant],
    (file, syntax): (&str, &syn::File),
    library: &str,
    next: &mut u32,
    edits: &mut Edits<'_>,
) -> Result<Vec<(String, u32)>> {
    let mut written = Vec::new();
    for mutant in mutants.iter().filter(|mutant| mutant.file == file) {
        let mutated = mutant.apply(edits.text())?;
        let other = syn::parse_file(&mutated)
            .context(|| format!("the mutant {} in {file}", mutant.name))?;
        if let Some(bodies) = changed_bodies((edits.text(), syntax), (&mutated, &other)) {
            for (place, body) in bodies {
                let before = format!("{{ if {library}::mutant::is({next}) {body} else ");
                edits.wrap(place, before, " }");
            }
            written.push((mutant.name.clone(), *next));
            *next += 1;
        }
    }
    Ok(written)
}

/// The module that knows which mutant is chosen, and which were reached.
fn module(mutants: u32) -> String {
    include_str!("chosen.rs").replace("MUTANTS: usize = 1", &format!("MUTANTS: usize = {mutants}"))
}

/// The files of the library, and which of them hold tests.
#[derive(Default)]
struct Modules {
    files: BTreeMap<String, (String, syn::File)>,
    /// How the paths of test files begin.
    tests: Vec<String>,
}

impl Modules {
    fn read(&mut self, file: &str, text: &str) -> Result<()> {
        let syntax = syn::parse_file(text).context(|| file.to_owned())?;
        let folder = match file.strip_suffix("/mod.rs").or(file.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_owned(),
            None => file.trim_end_matches(".rs").to_owned(),
        };
        for item in &syntax.items {
            if let syn::Item::Mod(module) = item
                && is_test(&module.attrs)
            {
                self.tests.push(format!("{folder}/{}.rs", module.ident));
                self.tests.push(format!("{folder}/{}/", module.ident));
            }
        }
        self.files.insert(file.to_owned(), (text.to_owned(), syntax));
        Ok(())
    }

    /// Whether the explorer can execute what a file holds: not real instructions, and not tests.
    fn is_shipped(&self, file: &str) -> bool {
        !file.ends_with(NATIVE) && !self.tests.iter().any(|test| file.starts_with(test))
    }

    fn shipped(&self) -> impl Iterator<Item = (&String, &(String, syn::File))> {
        self.files.iter().filter(|(file, _)| self.is_shipped(file))
    }
}

/// The functions of a file, and its text without their bodies.
struct Functions<'a> {
    found: Vec<(&'a Signature, &'a Block)>,
}

impl<'a> Functions<'a> {
    fn of(file: &'a syn::File) -> Self {
        let mut functions = Self { found: Vec::new() };
        functions.visit_file(file);
        functions
    }

    fn rest(&self, text: &str) -> Option<String> {
        let mut rest = String::new();
        let mut at = 0;
        for (_, block) in &self.found {
            let place = range(block);
            rest.push_str(text.get(at..place.start)?);
            rest.push_str("{}");
            at = place.end;
        }
        rest.push_str(&text[at..]);
        Some(syn::parse_file(&rest).ok()?.to_token_stream().to_string())
    }
}

impl<'a> Visit<'a> for Functions<'a> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.found.push((&item.sig, &item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.found.push((&item.sig, &item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.found.push((&item.sig, block));
        }
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        visit::visit_item_macro(self, item);
    }
}

fn range(block: &Block) -> Range<usize> {
    let span = block.brace_token.span;
    span.open().byte_range().start..span.close().byte_range().end
}

/// The bodies that differ, by their place in the original; `None` if something else differs, too, or
/// if two bodies cannot stand beside each other.
fn changed_bodies(
    original: (&str, &syn::File),
    mutated: (&str, &syn::File),
) -> Option<Vec<(Range<usize>, String)>> {
    let (before, after) = (Functions::of(original.1), Functions::of(mutated.1));
    if before.found.len() != after.found.len()
        || before.rest(original.0)? != after.rest(mutated.0)?
    {
        return None;
    }
    let mut changed = Vec::new();
    for ((signature, old), (_, new)) in before.found.iter().zip(&after.found) {
        let body = new.to_token_stream().to_string();
        if old.to_token_stream().to_string() == body {
            continue;
        }
        // The compiler computes it, or each body would have a type of its own.
        let returns = signature.output.to_token_stream().to_string();
        if signature.constness.is_some() || returns.split_whitespace().any(|word| word == "impl") {
            return None;
        }
        changed.push((range(old), body));
    }
    (!changed.is_empty()).then_some(changed)
}

#[cfg(test)]
mod tests;
